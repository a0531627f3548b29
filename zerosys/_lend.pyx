"""Buffers lent to a pipe in turn, in one call."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.errno cimport EINTR, ETIMEDOUT

from zerosys._args cimport as_count, as_fd
from zerosys._result cimport fail
from zerosys._splice cimport iovec
from zerosys._transfer cimport DONE, EXPIRED, deadline_of, seconds_of

cdef extern from "_lend.h" nogil:
    struct lending "zs_lending":
        int pipe
        const iovec *buffers
        int n
        int turn
        size_t at
        size_t left
        unsigned long long lent
        long long spin

    int c_lend_drive "zs_lend_drive"(lending *it, long long deadline)


def lend(buffers, pipe, count, *, timeout=None, spin=0.0):
    """Lend *buffers* to *pipe* in turn, again and again, until *count* bytes are lent; return how many.

    **Raw**, as vmsplice() is: the reader reads these very pages, and sees what is written
    to them until the last consumer has read them. So it is for buffers that do not change,
    or whose reader tells when it has read. *spin* is the seconds to try again before a
    sleep. Buffers in separate huge pages are the fastest: two ends that work on one page
    contend for its count of references.

    Raises TimeoutError after *timeout* seconds, BrokenPipeError without a reader; both
    carry ``moved``. See vmsplice(2).
    """
    cdef lending it
    it.lent = 0
    cdef list held = list(buffers)
    cdef int n = len(held), taken = 0, rc
    cdef Py_buffer *views
    cdef iovec *vec
    cdef long long deadline = deadline_of(timeout)
    if n == 0:
        raise ValueError("there must be at least one buffer, not none")
    views = <Py_buffer *>PyMem_Malloc(n * (sizeof(Py_buffer) + sizeof(iovec)))
    if views is NULL:
        raise MemoryError(f"no memory to describe {n} buffers")
    vec = <iovec *>&views[n]
    try:
        for item in held:
            PyObject_GetBuffer(item, &views[taken], PyBUF_SIMPLE)
            vec[taken].iov_base, vec[taken].iov_len = views[taken].buf, views[taken].len
            taken += 1
            if not views[taken - 1].len:
                raise ValueError(f"buffer {taken - 1} is empty")
        it.pipe, it.buffers, it.n, it.turn, it.at, it.lent = as_fd(pipe), vec, n, 0, 0, 0
        it.left = as_count(count, "count")
        it.spin = <long long>(1e9 * seconds_of(spin, "spin"))
        while True:
            with nogil:
                rc = c_lend_drive(&it, deadline)
            if rc == DONE:
                return it.lent
            PyErr_CheckSignals()
            if rc == EXPIRED:
                raise TimeoutError(ETIMEDOUT, f"{float(timeout):.3g} s are over and {it.lent} bytes are lent")
            if rc < 0 and rc != -EINTR:
                fail(rc, "vmsplice", f"after {it.lent} bytes")
    except BaseException as stopped:
        try:
            stopped.moved = it.lent
        except AttributeError:
            pass  # a handler's own exception, with slots
        raise
    finally:
        while taken:
            taken -= 1
            PyBuffer_Release(&views[taken])
        PyMem_Free(views)
