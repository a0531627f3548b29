"""DLPack capsules of bytes: a consumer takes memory without a copy, as the device that it wants it for."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from zerosys._args cimport as_count

cdef extern from "_dlpack.h":
    ctypedef struct ZsDLDevice:
        int32_t device_type
        int32_t device_id
    ctypedef struct ZsDLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct ZsDLTensor:
        void *data
        ZsDLDevice device
        int32_t ndim
        ZsDLDataType dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct ZsDLManaged:
        ZsDLTensor tensor
        void *manager
        void (*deleter)(ZsDLManaged *) noexcept
    ctypedef struct ZsDLVersioned:
        uint32_t major
        uint32_t minor
        void *manager
        void (*deleter)(ZsDLVersioned *) noexcept
        uint64_t flags
        ZsDLTensor tensor
    uint64_t ZS_DLPACK_READ_ONLY

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030D0000
    extern int _Py_IsFinalizing(void);
    #define Py_IsFinalizing _Py_IsFinalizing
    #endif
    static int zs_interpreter_lives(void) { return Py_IsInitialized() && !Py_IsFinalizing(); }
    """
    int interpreter_lives "zs_interpreter_lives"() noexcept nogil

CPU = 1
CUDA_HOST = 3

cdef enum:
    UNSIGNED = 1


cdef struct Loan:
    Py_buffer view
    Py_ssize_t begin
    int64_t length
    ZsDLManaged managed
    ZsDLVersioned versioned


cdef void give_back(Loan *loan) noexcept nogil:
    """End the lease, on whatever thread; after finalisation there is nobody left to give it back to."""
    if interpreter_lives():
        with gil:
            PyBuffer_Release(&loan.view)
        PyMem_RawFree(loan)


cdef void delete_managed(ZsDLManaged *self) noexcept nogil:
    give_back(<Loan *>self.manager)


cdef void delete_versioned(ZsDLVersioned *self) noexcept nogil:
    give_back(<Loan *>self.manager)


cdef void drop_capsule(object capsule) noexcept:
    """A capsule that nobody consumed; a consumer renames the one it took."""
    if PyCapsule_IsValid(capsule, "dltensor"):
        give_back(<Loan *>(<ZsDLManaged *>PyCapsule_GetPointer(capsule, "dltensor")).manager)
    elif PyCapsule_IsValid(capsule, "dltensor_versioned"):
        give_back(<Loan *>(<ZsDLVersioned *>PyCapsule_GetPointer(capsule, "dltensor_versioned")).manager)


cdef void describe(ZsDLTensor *tensor, Loan *loan, int device_type, int device_id) noexcept:
    tensor.data = <char *>loan.view.buf + loan.begin  # consumers forget byte_offset
    tensor.device.device_type, tensor.device.device_id = device_type, device_id
    tensor.ndim = 1
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = UNSIGNED, 8, 1
    tensor.shape, tensor.strides = &loan.length, NULL
    tensor.byte_offset = 0


def capsule(owner, device, offset, length, *, read_only, max_version=None):
    """A DLPack capsule of uint8[*length*] from byte *offset* of the buffer *owner*, on *device* (type, id).

    The capsule, and then its consumer, holds a view of *owner*. *max_version* is the
    consumer's: from (1, 0) on the capsule can say *read_only*, before that such memory is
    BufferError. See the DLPack specification.
    """
    cdef Py_ssize_t begin = as_count(offset, "offset"), count = as_count(length, "length")
    cdef int device_type = device[0], device_id = device[1]
    cdef bint versioned = max_version is not None and max_version[0] >= 1, readonly = read_only
    if readonly and not versioned:
        raise BufferError("read-only memory needs a consumer of DLPack 1.0: max_version >= (1, 0)")
    cdef Loan *loan = <Loan *>PyMem_RawMalloc(sizeof(Loan))
    if loan == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(owner, &loan.view, PyBUF_SIMPLE)
    except BaseException:
        PyMem_RawFree(loan)
        raise
    loan.length = count
    loan.begin = begin
    try:
        if begin > loan.view.len or count > loan.view.len - begin:
            raise ValueError(f"{count} bytes from {begin} are not within {loan.view.len} bytes")
        if versioned:
            loan.versioned.major, loan.versioned.minor = 1, 0
            loan.versioned.manager, loan.versioned.deleter = loan, delete_versioned
            loan.versioned.flags = ZS_DLPACK_READ_ONLY if readonly else 0
            describe(&loan.versioned.tensor, loan, device_type, device_id)
            return PyCapsule_New(&loan.versioned, "dltensor_versioned", drop_capsule)
        loan.managed.manager, loan.managed.deleter = loan, delete_managed
        describe(&loan.managed.tensor, loan, device_type, device_id)
        return PyCapsule_New(&loan.managed, "dltensor", drop_capsule)
    except BaseException:
        give_back(loan)
        raise
