"""O_NONBLOCK on loan: set by the first who needs it on a socket, taken away by the last."""

cimport cython
from posix.fcntl cimport F_GETFL, F_SETFL, O_NONBLOCK, fcntl
from posix.stat cimport fstat, struct_stat

from zerosys._result cimport interrupted, or_errno

# How many transfers need each socket to be non-blocking that was not. A socket has one
# description, whatever descriptors mean it, so its inode is the key.
cdef dict LOANS = {}


cdef object key_of(int fd):
    cdef struct_stat about
    interrupted(or_errno(fstat(fd, &about)), "fstat")
    return about.st_dev, about.st_ino


cdef bint is_on_loan(int fd):
    return key_of(fd) in LOANS


cdef Loaned borrow_nonblock(int fd):
    """Make the blocking socket *fd* non-blocking until the loan, and every other on it, is given back."""
    cdef Loaned loan = Loaned.__new__(Loaned)
    cdef object key = key_of(fd)
    cdef int flags = fcntl(fd, F_GETFL)
    interrupted(or_errno(fcntl(fd, F_SETFL, flags | O_NONBLOCK)), "fcntl(F_SETFL)")
    LOANS[key] = LOANS.get(key, 0) + 1
    loan.fd, loan.key = fd, key
    return loan


@cython.final
@cython.auto_pickle(False)
cdef class Loaned:
    """One loan, given back once."""

    cdef int give_back(self) except -1:
        cdef object key = self.key
        cdef int flags
        if key is None:
            return 0
        self.key = None
        LOANS[key] -= 1
        if LOANS[key]:
            return 0
        del LOANS[key]
        # Anew: only our bit is ours, and only if the number still means that socket.
        flags = fcntl(self.fd, F_GETFL)
        if flags >= 0 and key_of(self.fd) == key:
            fcntl(self.fd, F_SETFL, flags & ~O_NONBLOCK)
        return 0
