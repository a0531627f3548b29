from zerosys._ring_end cimport Window, uint64_t, zs_message
from zerosys._ring_reader cimport Reader
from zerosys._ring_writer cimport Writer


cdef class MessageWriter(Writer):
    cdef Window claim_window(self, object length, object timeout, bint patient)
    cdef int fits(self, Py_ssize_t length) except -1
    cdef bint write_buffer(self, object data, object timeout, bint patient) except -1
    cdef int put(self, const unsigned char *data, Py_ssize_t length,
                 object timeout, bint patient) except -1
    cdef Py_ssize_t put_list(self, object messages, object timeout) except -1
    cdef Py_ssize_t put_rows(self, object array, object timeout) except -1
    cdef int lay(self, uint64_t *ahead, const unsigned char *data, Py_ssize_t length,
                 object timeout) except -1


cdef class MessageReader(Reader):
    cdef bint find(self, zs_message *m, object timeout, bint patient) except -1
    cdef object take(self, zs_message *m)
    cdef int step(self, zs_message *m, object device=*) except -1
    cdef Window window(self, zs_message *m, bint found)
    cdef object read_one(self, object timeout, bint patient)
