"""Pages made to exist by threads that take no signals."""

cdef extern from "_mmap.h" nogil:
    enum:
        MADV_POPULATE_READ
        MADV_POPULATE_WRITE

cdef int populate(size_t at, size_t n, size_t page, bint write, int workers, object cpus) except -1
