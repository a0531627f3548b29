"""memfd_create(2) and file seals for nogil code: each returns a result or -errno."""

cdef extern from "_memfd.h" nogil:
    cpdef enum:
        MFD_CLOEXEC
        MFD_ALLOW_SEALING
        MFD_HUGETLB
        MFD_NOEXEC_SEAL
        MFD_EXEC
        MFD_HUGE_SHIFT
        F_SEAL_SEAL
        F_SEAL_SHRINK
        F_SEAL_GROW
        F_SEAL_WRITE
        F_SEAL_FUTURE_WRITE
        F_SEAL_EXEC

    ssize_t c_memfd_create "zs_memfd_create"(const char *name, unsigned int flags)
    ssize_t c_add_seals "zs_add_seals"(int fd, int seals)
    ssize_t c_get_seals "zs_get_seals"(int fd)
