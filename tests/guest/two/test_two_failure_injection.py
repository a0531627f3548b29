"""A failure at any call leaves nothing of the pool of huge pages either: used, reserved or named."""

import errno

import pytest
import works
from failing import judge, walk


@pytest.mark.timeout(220)
@pytest.mark.parametrize("work", works.HUGE, ids=lambda kind: kind.__name__)
def test_a_failure_at_any_call_leaves_nothing_of_the_pool(work):
    # Not every call, and one errno: under emulation each step takes a third of a second.
    judge(walk(work, [errno.ENOMEM], "own" if work.calls else "every", timeout=200), work)
