from zerosys._ring cimport zs_ring_writer
from zerosys._ring_end cimport End, Window, int64_t, uint64_t


cdef class Writer(End):
    cdef zs_ring_writer w
    cdef int64_t seen  # when it was last looked whether readers live

    cdef int room(self, uint64_t n, object timeout, bint patient) except -1
    cdef int wait(self, uint64_t n, object timeout) except -1
    cdef int look(self, uint64_t n, bint tell) except -1
    cdef int drop(self, uint64_t n) except -1
    cdef Window lend_scratch(self, Py_ssize_t items, Py_ssize_t nbytes)
    cdef int copy_in(self, unsigned char *to, const void *data, Py_ssize_t nbytes) except -1


cdef class Claim(Window):
    pass
