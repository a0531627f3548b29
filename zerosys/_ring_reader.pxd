from zerosys._ring cimport End, Window, int64_t, uint64_t, zs_message, zs_ring_reader


cdef class Reader(End):
    cdef zs_ring_reader r
    cdef uint64_t delivered   # counts that iteration handed out and that go back at its next step
    cdef Py_ssize_t deferred  # releases that wait for a device

    cdef int ready(self, uint64_t n, object timeout) except -1
    cdef int wait(self, uint64_t n, object timeout) except -1
    cdef int give_back(self, uint64_t n, Py_ssize_t items, object after) except -1
    cdef int step_on(self) except -1
    cdef int catch_up(self) except -1
    cdef int prompt(self) except -1


cdef class StreamReader(Reader):
    cdef int fits(self, Py_ssize_t n) except -1
    cdef Window window(self, uint64_t n)
    cdef Py_ssize_t copy_out(self, unsigned char *to, uint64_t n, object timeout) except -1
    cdef object copied_block(self)


cdef class MessageReader(Reader):
    cdef bint find(self, zs_message *m, object timeout, bint patient) except -1
    cdef object take(self, zs_message *m)
    cdef int step(self, zs_message *m) except -1
    cdef Window window(self, zs_message *m, bint found)
    cdef object read_one(self, object timeout, bint patient)


cdef class Peek(Window):
    cdef uint64_t missed(self) noexcept
