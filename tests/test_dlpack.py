"""Capsules of bytes: leases that any thread ends, that say what they are, and that outlive nothing."""

import ctypes
import gc
import threading

import numpy
import pytest
from counts import nothing_left

from zerosys import Mapping, SharedRegion, _dlpack

get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
set_name = ctypes.pythonapi.PyCapsule_SetName
set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"


class Managed(ctypes.Structure):
    """DLManagedTensor, as the specification has it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


def consumed(capsule):
    """Take *capsule* as a consumer in C does; the tensor, whose deleter is then the consumer's to call."""
    pointer = get_pointer(capsule, b"dltensor")
    set_name(capsule, USED)
    return Managed.from_address(pointer), pointer


def test_a_capsule_says_what_it_is():
    with SharedRegion.create(8192) as region:
        tensor, pointer = consumed(_dlpack.capsule(region, (3, 0), 100, 1000, read_only=False))
        assert (tensor.data, tensor.device_type, tensor.device_id) == (region.address + 100, 3, 0)
        assert (tensor.ndim, tensor.shape[0], bool(tensor.strides), tensor.byte_offset) == (1, 1000, False, 0)
        assert (tensor.code, tensor.bits, tensor.lanes) == (1, 8, 1)
        assert region.views == 1
        tensor.deleter(pointer)
        assert region.views == 0


def test_a_thread_that_python_does_not_know_may_end_it():
    libc = ctypes.CDLL(None)
    with nothing_left(), SharedRegion.create(8192) as region:
        tensor, pointer = consumed(_dlpack.capsule(region, (1, 0), 0, 8192, read_only=False))
        thread = ctypes.c_ulong()
        start = ctypes.cast(tensor.deleter, ctypes.c_void_p)
        # pthread_create calls the deleter itself: no thread state is there, and the GIL is not held.
        assert libc.pthread_create(ctypes.byref(thread), None, start, ctypes.c_void_p(pointer)) == 0
        assert libc.pthread_join(thread, None) == 0
        assert region.views == 0


def test_one_that_nobody_took_ends_with_its_capsule():
    with SharedRegion.create(8192) as region:
        for version in (None, (0, 8), (1, 0), (2, 3)):
            capsule = _dlpack.capsule(region, (1, 0), 0, 1, read_only=False, max_version=version)
            assert region.views == 1
            assert ("versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
            del capsule
            assert region.views == 0


def test_arrays_made_of_them_in_many_threads_leave_nothing():
    with SharedRegion.create(1 << 16) as region:

        class Lender:
            def __dlpack__(self, **words):
                return _dlpack.capsule(region, (1, 0), 0, 1 << 16, read_only=False, max_version=(1, 0))

            def __dlpack_device__(self):
                return (1, 0)

        def work():
            for _ in range(200):
                numpy.from_dlpack(Lender())[:8] = 1

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        assert region.views == 0


@pytest.mark.parametrize(("offset", "length"), [(0, 8193), (8193, 0), (8000, 200)])
def test_more_than_there_is_is_refused_and_nothing_held(offset, length):
    with SharedRegion.create(8192) as region:
        with pytest.raises(ValueError, match="are not within 8192"):
            _dlpack.capsule(region, (1, 0), offset, length, read_only=False)
        assert region.views == 0


def test_what_lends_nothing_is_refused():
    with pytest.raises(TypeError):
        _dlpack.capsule(object(), (1, 0), 0, 0, read_only=False)
    mapping = Mapping(None, 4096, flags=2)
    mapping.close()
    with pytest.raises(ValueError, match="closed"):
        _dlpack.capsule(mapping, (1, 0), 0, 1, read_only=False)
