"""O_NONBLOCK on loan: set by the first who needs it on a socket, taken away by the last."""

cdef class Loaned:
    cdef int fd
    cdef object key

    cdef int give_back(self) except -1

cdef Loaned borrow_nonblock(int fd)
cdef bint is_on_loan(int fd)
