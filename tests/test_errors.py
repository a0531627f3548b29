"""Errors keep what they carry, also through another process."""

import copy
import errno
import pickle

import pytest

from zerosys.errors import PlacementError, Unsupported


@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_placement_error_keeps_its_number_text_and_pages(clone):
    error = clone(PlacementError(errno.EACCES, "3 of 9 pages", pages={0: 6, -13: 3}))
    assert type(error) is PlacementError and isinstance(error, OSError)
    assert (error.errno, error.strerror, error.pages) == (errno.EACCES, "3 of 9 pages", {0: 6, -13: 3})


def test_errors_without_counts_have_none():
    assert PlacementError(errno.EPERM, "no").pages == {}
    # not PermissionError: what was refused is the placement, not the access
    assert type(PlacementError(errno.EPERM, "no")) is PlacementError
    assert Unsupported(errno.EINVAL, "no").errno == errno.EINVAL
