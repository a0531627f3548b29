"""MSG_ZEROCOPY: a send that lends its pages, and the error queue that says when they are free."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINVAL, ENOPROTOOPT, EOPNOTSUPP

from zerosys._args cimport as_fd
from zerosys._result cimport fail, interrupted

cdef extern from "_zerocopy.h" nogil:
    struct answer "zs_freed":
        unsigned int first
        unsigned int last
        int copied

    ssize_t c_enable_zerocopy "zs_enable_zerocopy"(int fd)
    ssize_t c_lend "zs_lend"(int fd, const void *start, size_t n, int zerocopy)
    ssize_t c_read_freed "zs_read_freed"(int fd, answer *it)


def enable_zerocopy(sock):
    """Set SO_ZEROCOPY; whether it took. Without it the flag of a send is ignored in silence."""
    cdef ssize_t rc = c_enable_zerocopy(as_fd(sock))
    if rc == -EOPNOTSUPP or rc == -ENOPROTOOPT or rc == -EINVAL:
        return False
    interrupted(rc, "setsockopt(SO_ZEROCOPY)")
    return True


def lend(sock, buffer, zerocopy=True):
    """Send bytes of *buffer* without sleeping; how many were taken, often fewer.

    With *zerocopy* its pages are lent until freed() has answered this send. Raises
    BlockingIOError if the socket takes none now. See send(2).
    """
    cdef int fd = as_fd(sock)
    cdef bint flag = zerocopy
    cdef Py_buffer view
    cdef ssize_t sent
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        while True:
            with nogil:
                sent = c_lend(fd, view.buf, view.len, flag)
            if not interrupted(sent, "send"):
                return sent
    finally:
        PyBuffer_Release(&view)


def freed(sock):
    """The answers that wait on the error queue, as (first, last, copied), without sleeping.

    Each frees the zero-copy sends of this socket from *first* to *last*, counted from 0
    and modulo 2**32; *copied* tells that the kernel had to copy after all. Other messages
    of the queue are taken and dropped. See the kernel's documentation of MSG_ZEROCOPY.
    """
    cdef int fd = as_fd(sock)
    cdef list answers = []
    cdef answer it
    cdef ssize_t rc
    while True:
        rc = c_read_freed(fd, &it)
        if rc == -EAGAIN:
            return answers
        if rc < 0:
            fail(rc, "recvmsg(MSG_ERRQUEUE)")
        if rc:
            answers.append((it.first, it.last, bool(it.copied)))
