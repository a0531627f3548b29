"""A result or -errno; the one place where errno becomes an exception."""

from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR
from libc.string cimport strerror


cdef int fail(ssize_t rc, str call, str why="") except -1:
    """Raise OSError for *rc*, a -errno of *call*; *why* is a cause that was checked."""
    cdef str text = f"{call}: {strerror(<int>-rc).decode()}"
    # OSError and not a subclass: only its constructor picks BlockingIOError and the like.
    raise OSError(-rc, f"{text}; {why}" if why else text)


cdef bint retry(ssize_t rc, str call) except -1:
    """True for -EINTR, unless a signal handler raised (PEP 475); raise all else."""
    if rc == -EINTR:
        PyErr_CheckSignals()
        return True
    fail(rc, call)
