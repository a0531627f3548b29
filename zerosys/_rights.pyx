"""Descriptors that go from process to process over a Unix socket, never lost on the way.

The calls never sleep, whatever timeout a socket object has.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from posix.unistd cimport close

from zerosys._args cimport as_count, as_fd
from zerosys._descriptor cimport Descriptor
from zerosys._result cimport interrupted


def send_fds(sock, data, fds=()):
    """Send the bytes *data* and beside them the descriptors *fds*, up to 4, which stay the caller's.

    Returns the bytes sent, often fewer; *fds* have gone with the first of them. Raises
    BlockingIOError where the socket is full, BrokenPipeError (no SIGPIPE) where the peer has
    gone. See unix(7), SCM_RIGHTS.
    """
    cdef int socket = as_fd(sock), passed[ZS_MOST_SENT]
    cdef Py_ssize_t count = 0
    for fd in fds:
        if count == ZS_MOST_SENT:
            raise ValueError(f"at most {ZS_MOST_SENT} descriptors go at once, not {len(fds)}")
        passed[count] = as_fd(fd)
        count += 1
    cdef Py_buffer view
    cdef ssize_t sent
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while True:
            sent = c_send_fds(socket, view.buf, view.len, passed, count)
            if not interrupted(sent, "sendmsg"):
                return sent
    finally:
        PyBuffer_Release(&view)


def receive_fds(sock, count):
    """Receive up to *count* bytes: these, a list of the descriptors beside them, and recvmsg's flags.

    Each descriptor is Descriptor, and closed on exec. MSG_CTRUNC among the flags tells of more
    that did not arrive. No bytes are the end of the stream. Raises BlockingIOError where
    nothing waits. See unix(7), SCM_RIGHTS.
    """
    cdef int socket = as_fd(sock), flags = 0
    cdef Py_ssize_t n = as_count(count, "count")
    cdef int fds[ZS_MOST_FDS]
    cdef size_t came = 0, taken = 0
    cdef ssize_t got
    cdef bytes data = PyBytes_FromStringAndSize(NULL, n)
    cdef list owned = []
    while True:
        got = c_receive_fds(socket, PyBytes_AS_STRING(data), n, fds, &came, &flags)
        if not interrupted(got, "recvmsg"):
            break
    try:
        while taken < came:
            owned.append(Descriptor(fds[taken]))
            taken += 1
        return data[:got], owned, flags
    except MemoryError:
        for i in range(taken, came):
            close(fds[i])
        raise
