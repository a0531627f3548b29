from zerosys._ring cimport zs_ring_reader
from zerosys._ring_end cimport End, Window, int64_t, uint64_t


cdef extern from "_ring_watch.h" nogil:
    struct zs_watch:
        zs_ring_reader *r
        int fd, event


cdef class Reader(End):
    cdef zs_ring_reader r
    cdef zs_watch watch       # the thread behind fileno()
    cdef uint64_t delivered   # counts that iteration handed out and that go back at its next step
    cdef Py_ssize_t deferred  # releases that wait for a device

    cdef int ready(self, uint64_t n, object timeout) except -1
    cdef int poll(self, uint64_t n) except -1
    cdef int published(self, uint64_t n, object timeout) except -1
    cdef int wait(self, uint64_t n, object timeout) except -1
    cdef int give_back(self, uint64_t n, Py_ssize_t items, object after) except -1
    cdef int step_on(self) except -1
    cdef bint catch_up(self) except -1
    cdef int prompt(self) except -1
    cdef void quit_watching(self) noexcept


cdef class Peek(Window):
    cdef uint64_t missed(self) noexcept


cdef enum:
    PATIENCE = 1000  # looks in a row that the writer may lap


cdef int outrun() except -1
cdef int copy(Reader reader, void *to, const void *data, Py_ssize_t nbytes) except -1
cdef int get_room(object buffer, Py_buffer *view, Py_ssize_t size, Py_ssize_t element) except -1
