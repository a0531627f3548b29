from zerosys._ring cimport End, Window, int64_t, uint64_t, zs_ring_writer


cdef class Writer(End):
    cdef zs_ring_writer w
    cdef int64_t seen  # when it was last looked whether readers live

    cdef int room(self, uint64_t n, object timeout, bint patient) except -1
    cdef int wait(self, uint64_t n, object timeout) except -1
    cdef int look(self, uint64_t n, bint tell) except -1
    cdef int drop(self, uint64_t n) except -1
    cdef int copy_in(self, unsigned char *to, const void *data, Py_ssize_t nbytes) except -1


cdef class StreamWriter(Writer):
    cdef Window claim_window(self, object n, object timeout, bint patient)
    cdef object write_buffer(self, object data, object timeout, bint patient)
    cdef Py_ssize_t put(self, const unsigned char *data, Py_ssize_t nbytes, object timeout, bint patient) except -2
    cdef Py_ssize_t put_parts(self, const unsigned char *data, uint64_t n, object timeout, bint patient) except -2
    cdef Py_ssize_t put_list(self, object parts, object timeout) except -1


cdef class MessageWriter(Writer):
    cdef Window claim_window(self, object length, object timeout, bint patient)
    cdef int fits(self, Py_ssize_t length) except -1
    cdef bint write_buffer(self, object data, object timeout, bint patient) except -1
    cdef int put(self, const unsigned char *data, Py_ssize_t length, object timeout, bint patient) except -1
    cdef Py_ssize_t put_list(self, object messages, object timeout) except -1
    cdef Py_ssize_t put_rows(self, object array, object timeout) except -1
    cdef int lay(self, uint64_t *ahead, const unsigned char *data, Py_ssize_t length, object timeout) except -1


cdef class Claim(Window):
    pass
