"""Addresses of our own, and the arithmetic of pages."""

cdef extern from "<sys/types.h>" nogil:
    ctypedef long long off_t

cdef extern from "_mmap.h" nogil:
    enum:
        PROT_NONE
        PROT_READ
        PROT_WRITE
        MAP_PRIVATE
        MAP_FIXED
        MAP_ANONYMOUS
        MAP_NORESERVE
        MAP_HUGETLB
        MAP_HUGE_SHIFT
        MAP_HUGE_MASK

    ssize_t c_mmap "zs_mmap"(size_t at, size_t length, int protection, int flags, int fd, off_t offset)
    ssize_t c_map_holes "zs_map_holes"(size_t at, size_t length)
    ssize_t c_munmap "zs_munmap"(size_t at, size_t length)
    ssize_t c_page_of "zs_page_of"(int fd)

cdef size_t BASE_PAGE


cdef class Range:
    # Addresses that are ours until this object is collected: nobody else's mapping can come
    # to lie under an array that kept only the object it was made from.
    cdef size_t at, length
    cdef Range former  # where the mapping lay before a resize moved it


cdef Range reserve(size_t length, size_t align)
cdef int empty(Range room, size_t begin) except -1
cdef size_t rounded(size_t n, size_t page) noexcept
cdef Py_ssize_t page_of(int file, int bits) except -1
cdef size_t as_align(object wish, size_t page) except 0
