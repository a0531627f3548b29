"""Descriptors on Unix sockets for nogil code: each call returns a result or -errno."""

cdef extern from "_rights.h" nogil:
    enum:
        ZS_MOST_FDS
    ssize_t c_send_fd "zs_send_fd"(int sock, const void *bytes, size_t n, int fd)
    ssize_t c_receive_fds "zs_receive_fds"(
        int sock, void *bytes, size_t n, int *fds, size_t *count, int *flags)
