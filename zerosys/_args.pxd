"""Python arguments as C numbers: exact (1.5 is not 1), in range, and named when they are not."""

from cpython.number cimport PyNumber_Index


cdef extern from "Python.h":
    Py_ssize_t PyLong_AsSsize_t(object n) except? -1
    long long PyLong_AsLongLong(object n) except? -1
    const Py_ssize_t PY_SSIZE_T_MAX


cdef inline Py_ssize_t as_count(object n, str name) except -1:
    """*n* as a number of bytes or things, 0 to 2**63 - 1."""
    cdef Py_ssize_t value
    n = PyNumber_Index(n)
    try:
        value = PyLong_AsSsize_t(n)
    except OverflowError:
        value = -1
    if value < 0:
        raise ValueError(f"{name} must be 0 to {PY_SSIZE_T_MAX}, not {n}")
    return value


cdef inline unsigned int as_bits(object n, str name) except? 0xffffffff:
    """*n* as a word of flags, 0 to 2**32 - 1."""
    cdef Py_ssize_t value = as_count(n, name)
    if value > 0xffffffff:
        raise ValueError(f"{name} must fit in 32 bits, not {n:#x}")
    return <unsigned int>value


cdef inline int as_int(object n, str name) except? -1:
    """*n* as a C int."""
    cdef long long value
    n = PyNumber_Index(n)
    try:
        value = PyLong_AsLongLong(n)
    except OverflowError:
        value = 1LL << 40
    if not -0x80000000LL <= value <= 0x7fffffffLL:
        raise ValueError(f"{name} must be {-2**31} to {2**31 - 1}, not {n}")
    return <int>value
