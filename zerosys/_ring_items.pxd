from zerosys._ring_end cimport Window, uint64_t
from zerosys._ring_reader cimport Reader
from zerosys._ring_writer cimport Writer


cdef class StreamWriter(Writer):
    cdef Window claim_window(self, object n, object timeout, bint patient)
    cdef object write_buffer(self, object data, object timeout, bint patient)
    cdef Py_ssize_t put(self, const unsigned char *data, Py_ssize_t nbytes,
                        object timeout, bint patient) except -2
    cdef Py_ssize_t put_parts(self, const unsigned char *data, uint64_t n,
                              object timeout, bint patient) except -2
    cdef Py_ssize_t put_list(self, object parts, object timeout) except -1


cdef class StreamReader(Reader):
    cdef int fits(self, Py_ssize_t n) except -1
    cdef Window window(self, uint64_t n)
    cdef Py_ssize_t copy_out(self, unsigned char *to, uint64_t n, object timeout) except -1
    cdef object copied_block(self)
    cdef object block(self, Window window)
