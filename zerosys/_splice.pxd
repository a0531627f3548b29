"""splice(2) and its family for nogil code: each returns a result or -errno."""

cdef extern from "<sys/types.h>" nogil:
    ctypedef long long loff_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "_splice.h" nogil:
    cpdef enum:
        SPLICE_F_MOVE
        SPLICE_F_NONBLOCK
        SPLICE_F_MORE
        SPLICE_F_GIFT
        AT_FDCWD
        AT_EMPTY_PATH
        AT_SYMLINK_FOLLOW
        IOV_MAX

    ssize_t c_splice "zs_splice"(
        int src, loff_t *offset_src, int dst, loff_t *offset_dst, size_t count, unsigned int flags)
    ssize_t c_tee "zs_tee"(int src, int dst, size_t count, unsigned int flags)
    ssize_t c_vmsplice "zs_vmsplice"(int fd, const iovec *buffers, size_t n, unsigned int flags)
    ssize_t c_sendfile "zs_sendfile"(int dst, int src, loff_t *offset_src, size_t count)
    ssize_t c_copy_file_range "zs_copy_file_range"(
        int src, loff_t *offset_src, int dst, loff_t *offset_dst, size_t count, unsigned int flags)
    ssize_t c_linkat "zs_linkat"(
        int src_dir_fd, const char *src, int dst_dir_fd, const char *dst, int flags)
    ssize_t c_get_pipe_size "zs_get_pipe_size"(int pipe)
    ssize_t c_set_pipe_size "zs_set_pipe_size"(int pipe, int size)
    ssize_t c_wish_pipe_size "zs_wish_pipe_size"(int pipe, size_t wish)
    ssize_t c_readable_bytes "zs_readable_bytes"(int fd)
    ssize_t c_status_flags "zs_status_flags"(int fd)
    ssize_t c_same_file "zs_same_file"(int a, int b)
