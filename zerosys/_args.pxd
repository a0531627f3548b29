"""Python arguments as C numbers: exact (1.5 is not 1), in range, and named when they are not.

A small int, nearly every argument, is read inline; all else goes by the kind of number it is.
"""

from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject_AsFileDescriptor


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object n, int *overflow) except? -1
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from "_args.h":
    Py_ssize_t small "zs_small"(object n)


cdef inline object as_integer(object n, str name):
    """*n* as an int; what has no __index__ is named."""
    if not PyIndex_Check(n):
        raise TypeError(f"{name} must be an integer, not {type(n).__name__} ({n!r:.100})")
    return PyNumber_Index(n)


cdef inline Py_ssize_t any_number(object n, str name, Py_ssize_t limit) except -1:
    """*n*, whatever kind of integer it is, 0 to *limit*."""
    cdef int overflow = 0
    n = as_integer(n, name)
    cdef Py_ssize_t value = PyLong_AsLongLongAndOverflow(n, &overflow)
    if value < 0 or value > limit or overflow:
        raise ValueError(f"{name} must be 0 to {limit}, not {n}")
    return value


cdef inline int any_int(object n, str name) except? -1:
    """*n*, whatever kind of integer it is, as a C int."""
    cdef int overflow = 0
    n = as_integer(n, name)
    cdef long long value = PyLong_AsLongLongAndOverflow(n, &overflow)
    if overflow or not -0x80000000LL <= value <= 0x7fffffffLL:
        raise ValueError(f"{name} must be {-2**31} to {2**31 - 1}, not {n}")
    return <int>value


cdef inline int any_fd(object fd) except -1:
    """The descriptor of *fd*, which is no small int."""
    try:
        return PyObject_AsFileDescriptor(fd)
    except OverflowError:
        raise ValueError(f"a descriptor must be 0 to {2**31 - 1}, not {fd!r}") from None


cdef inline Py_ssize_t as_count(object n, str name) except -1:
    """*n* as a number of bytes or things, 0 to 2**63 - 1."""
    cdef Py_ssize_t value = small(n)
    return value if value >= 0 else any_number(n, name, PY_SSIZE_T_MAX)


cdef inline unsigned int as_bits(object n, str name) except? 0xffffffff:
    """*n* as a word of flags, 0 to 2**32 - 1."""
    cdef Py_ssize_t value = small(n)
    return <unsigned int>(value if value >= 0 else any_number(n, name, 0xffffffff))


cdef inline int as_int(object n, str name) except? -1:
    """*n* as a C int."""
    cdef Py_ssize_t value = small(n)
    return <int>value if value >= 0 else any_int(n, name)


cdef inline int as_fd(object fd) except -1:
    """The descriptor that *fd* is, or that its ``fileno()`` answers."""
    cdef Py_ssize_t value = small(fd)
    return <int>value if value >= 0 else any_fd(fd)
