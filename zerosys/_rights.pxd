"""Descriptors on Unix sockets for nogil code: each call returns a result or -errno."""

cdef extern from "_rights.h" nogil:
    enum:
        ZS_MOST_FDS
        ZS_MOST_SENT
    ssize_t c_send_fds "zs_send_fds"(int sock, const void *bytes, size_t n, const int *fds, size_t count)
    ssize_t c_receive_fds "zs_receive_fds"(
        int sock, void *bytes, size_t n, int *fds, size_t *count, int *flags)
