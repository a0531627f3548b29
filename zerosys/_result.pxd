"""A result or -errno; the one place where errno becomes an exception."""

cdef extern from "_result.h" nogil:
    ssize_t or_errno "zs_or_errno"(ssize_t rc)
    ssize_t map_or_errno "zs_map_or_errno"(void *at)

cdef int fail(ssize_t rc, str call, str why=*) except -1
cdef bint retry(ssize_t rc, str call) except -1


cdef inline bint interrupted(ssize_t rc, str call) except -1:
    """Whether to call again, for *rc* from or_errno; raise what cannot be retried."""
    return False if rc >= 0 else retry(rc, call)
