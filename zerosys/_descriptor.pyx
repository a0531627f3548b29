"""Descriptors that have an owner from the moment they exist.

A signal handler may raise between any two steps of Python code, and a descriptor that only a
variable was about to hold is then lost. Compiled code has no such moments.
"""

cimport cython
from posix.unistd cimport close as c_close

from zerosys._args cimport as_fd
from zerosys._result cimport interrupted, or_errno

cdef extern from "<fcntl.h>" nogil:
    int F_DUPFD_CLOEXEC
    int fcntl(int fd, int command, ...)


@cython.final
@cython.auto_pickle(False)
cdef class Descriptor:
    """Owns the descriptor *fd*, a number: it is closed with this object at the latest.

    Raises ValueError for what no descriptor can be. See close(2).
    """

    def __cinit__(self, fd):
        self.fd = -1
        self.fd = as_fd(fd)

    def __dealloc__(self):
        give_up(self)

    def fileno(self):
        """The descriptor, still this object's. Raises ValueError once closed."""
        if self.fd < 0:
            raise ValueError("this descriptor is closed")
        return self.fd

    @property
    def closed(self):
        """Whether the descriptor was given back."""
        return self.fd < 0

    def close(self):
        """Give the descriptor back. Twice is fine. See close(2)."""
        give_up(self)

    def __repr__(self):
        return "<Descriptor, closed>" if self.fd < 0 else f"<Descriptor {self.fd}>"


cdef void give_up(Descriptor it) noexcept:
    cdef int fd = it.fd
    it.fd = -1  # first: nobody shall see a number that may be somebody else's by now
    if fd >= 0:
        with nogil:  # the last descriptor of much memory takes long to close
            c_close(fd)


def own(make, *arguments, **words):
    """Own the new descriptor that *make*, a function in C such as os.open, returns."""
    return Descriptor(make(*arguments, **words))


def duplicate(fd):
    """Own a duplicate of *fd*, an int or what has ``fileno()``. See fcntl(2), F_DUPFD_CLOEXEC."""
    cdef int source = as_fd(fd)
    cdef ssize_t got = or_errno(fcntl(source, F_DUPFD_CLOEXEC, 0))
    interrupted(got, "fcntl(F_DUPFD_CLOEXEC)")
    return Descriptor(got)
