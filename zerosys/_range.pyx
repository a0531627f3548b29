"""Addresses of our own, and the arithmetic of pages."""

cimport cython
from libc.errno cimport EINVAL, ENOMEM
from posix.unistd cimport _SC_PAGESIZE, sysconf

from zerosys._args cimport as_count
from zerosys._result cimport fail, interrupted

BASE_PAGE = sysconf(_SC_PAGESIZE)


@cython.auto_pickle(False)
@cython.no_gc_clear  # what refers to it, in a cycle, may still touch the memory
@cython.final
cdef class Range:
    def __dealloc__(self):
        if self.length:
            with nogil:  # 0.3 s for each GiB of base pages
                c_munmap(self.at, self.length)


cdef Range reserve(size_t length, size_t align):
    """Addresses for *length* bytes at a multiple of *align*, with nothing behind them yet."""
    cdef size_t room = length + (align if align > BASE_PAGE else 0)
    cdef ssize_t at = c_mmap(0, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if at < 0:
        fail(at, "mmap", f"no range of {room} free addresses")
    cdef Range got = Range.__new__(Range)
    cdef size_t begin = (<size_t>at + align - 1) & ~(align - 1)
    cdef size_t end = begin + length
    if begin > <size_t>at:
        c_munmap(at, begin - <size_t>at)
    if end < <size_t>at + room:
        c_munmap(end, <size_t>at + room - end)
    got.at, got.length = begin, length
    return got


cdef size_t rounded(size_t n, size_t page) noexcept:
    return (n + page - 1) & ~(page - 1)


cdef int empty(Range room, size_t begin) except -1:
    """Free the pages in *room* from byte *begin* on; keep the addresses, filled with memory of no cost."""
    cdef size_t place = room.at + begin, length = room.length - begin
    cdef ssize_t at
    with nogil:  # freeing much memory takes long
        at = c_mmap(place, length, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)
        if at == -ENOMEM:
            at = c_map_holes(place, length)
    interrupted(at, "mmap")
    return 0


cdef Py_ssize_t page_of(int file, int bits) except -1:
    """The bytes of one page of a mapping to be."""
    cdef ssize_t page
    if file >= 0:
        page = c_page_of(file)
        interrupted(page, "fstatfs")
        return page
    if not bits & MAP_HUGETLB:
        return BASE_PAGE
    if bits >> MAP_HUGE_SHIFT & MAP_HUGE_MASK:
        return 1 << (bits >> MAP_HUGE_SHIFT & MAP_HUGE_MASK)
    with open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("Hugepagesize:"):
                return int(line.split()[1]) << 10
    fail(-EINVAL, "mmap", "this kernel has no huge pages (no Hugepagesize in /proc/meminfo)")


cdef size_t as_align(object wish, size_t page) except 0:
    cdef size_t align = as_count(wish, "align")
    if align & (align - 1) or align > <size_t>1 << 40:
        raise ValueError(f"align must be a power of two up to 2**40, not {align}")
    return max(align, page)
