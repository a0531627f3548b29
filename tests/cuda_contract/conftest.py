"""The fixture that chooses: the machine's driver where there is one, else the double."""

import gc

import cuda_rig
import pytest

from zerosys import pinned


@pytest.fixture
def gpu():
    """A rig whose device's context is current on this thread; nothing registered stays."""
    rig = cuda_rig.rig()
    rig.make_current()
    yield rig
    gc.collect()
    left = pinned.ranges()
    cuda_rig.remove()
    assert left == []


@pytest.fixture
def fresh_gpu():
    """A rig of which this thread has used nothing yet: no context is current."""
    rig = cuda_rig.rig()
    yield rig
    gc.collect()
    cuda_rig.remove()
