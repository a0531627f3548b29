"""mmap(2) and its family for nogil code, and the Mapping that Python sees."""

from libc.stdint cimport uint64_t

from zerosys._range cimport Range

cdef extern from "<sys/types.h>" nogil:
    ctypedef long long off_t

cdef extern from "_mmap.h" nogil:
    cpdef enum:
        PROT_NONE
        PROT_READ
        PROT_WRITE
        PROT_EXEC
        MAP_SHARED
        MAP_PRIVATE
        MAP_SHARED_VALIDATE
        MAP_FIXED
        MAP_FIXED_NOREPLACE
        MAP_ANONYMOUS
        MAP_GROWSDOWN
        MAP_LOCKED
        MAP_NORESERVE
        MAP_POPULATE
        MAP_NONBLOCK
        MAP_STACK
        MAP_HUGETLB
        MAP_SYNC
        MAP_HUGE_SHIFT
        MAP_HUGE_MASK
        MS_ASYNC
        MS_INVALIDATE
        MS_SYNC
        MLOCK_ONFAULT
        MADV_NORMAL
        MADV_RANDOM
        MADV_SEQUENTIAL
        MADV_WILLNEED
        MADV_DONTNEED
        MADV_FREE
        MADV_REMOVE
        MADV_DONTFORK
        MADV_DOFORK
        MADV_MERGEABLE
        MADV_UNMERGEABLE
        MADV_HUGEPAGE
        MADV_NOHUGEPAGE
        MADV_DONTDUMP
        MADV_DODUMP
        MADV_WIPEONFORK
        MADV_KEEPONFORK
        MADV_COLD
        MADV_PAGEOUT
        MADV_POPULATE_READ
        MADV_POPULATE_WRITE
        MADV_DONTNEED_LOCKED
        MADV_COLLAPSE
        MADV_HWPOISON
        MADV_SOFT_OFFLINE
        MADV_GUARD_INSTALL
        MADV_GUARD_REMOVE

    ssize_t c_mmap "zs_mmap"(size_t at, size_t length, int protection, int flags, int fd, off_t offset)
    ssize_t c_munmap "zs_munmap"(size_t at, size_t length)
    ssize_t c_mremap "zs_mremap"(size_t at, size_t length, size_t to)
    ssize_t c_mprotect "zs_mprotect"(size_t at, size_t length, int protection)
    ssize_t c_madvise "zs_madvise"(size_t at, size_t length, int advice)
    ssize_t c_mlock2 "zs_mlock2"(size_t at, size_t length, unsigned int flags)
    ssize_t c_munlock "zs_munlock"(size_t at, size_t length)
    ssize_t c_msync "zs_msync"(size_t at, size_t length, int flags)
    ssize_t c_mincore "zs_mincore"(size_t at, size_t length, unsigned char *residency)
    ssize_t c_ftruncate "zs_ftruncate"(int fd, off_t size)
    ssize_t c_page_of "zs_page_of"(int fd)


cdef enum Work:
    ADVISE, LOCK, SYNC


cdef class Mapping:
    # After close() the range holds anonymous memory: an array that kept only this object,
    # and no lease, then reads zeros.
    cdef Range range
    cdef Py_ssize_t asked, span, page  # bytes: wished, mapped, of one page
    cdef int prot, bits
    cdef uint64_t device, inode
    cdef off_t start  # of the file's part
    cdef Py_ssize_t leases
    cdef bint mirrored, is_closed, is_closing, changing
    cdef object asked_object, __weakref__

    cdef int check(self) except -1
    cdef int cut(self, object offset, object length, size_t *at, size_t *n) except -1
    cdef int idle(self, str what) except -1
    cdef int change(self) except -1
    cdef int changed(self) except -1
    cdef int drop(self) except -1
    cdef int leave(self) except -1
    cdef int reach(self, int file) except -1
    cdef size_t map_half(self, int file, size_t place) except 0
    cdef int map_at(self, int file, size_t align) except -1
    cdef int in_slices(self, Work work, size_t at, size_t n, int word) except -1
    cdef int resize_anonymous(self, Py_ssize_t wish) except -1
    cdef int resize_file(self, Py_ssize_t wish, int file) except -1
    cdef int settle(self, Range room, Py_ssize_t wish, size_t span) except -1


cdef class Lease:
    cdef Mapping owner
    cdef Py_ssize_t length

    cdef int own(self, size_t at, size_t n) except -1
