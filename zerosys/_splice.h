/* splice(2) and its family, each as a result or -errno. */
#ifndef ZEROSYS_SPLICE_H
#define ZEROSYS_SPLICE_H

#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "_result.h"

#define ZS_PIPE_LIMIT (1 << 30) /* the largest that F_SETPIPE_SZ takes: its argument is an int */
#ifndef IOV_MAX
#define IOV_MAX 1024
#endif

static inline ssize_t zs_splice(int src, loff_t *offset_src, int dst, loff_t *offset_dst,
                                size_t count, unsigned int flags)
{
    return zs_or_errno(splice(src, offset_src, dst, offset_dst, count, flags));
}

static inline ssize_t zs_tee(int src, int dst, size_t count, unsigned int flags)
{
    return zs_or_errno(tee(src, dst, count, flags));
}

static inline ssize_t zs_vmsplice(int fd, const struct iovec *buffers, size_t n, unsigned int flags)
{
    return zs_or_errno(vmsplice(fd, buffers, n, flags));
}

_Static_assert(sizeof(off_t) == sizeof(loff_t), "zerosys needs 64-bit file offsets: -D_FILE_OFFSET_BITS=64");

static inline ssize_t zs_sendfile(int dst, int src, loff_t *offset_src, size_t count)
{
    return zs_or_errno(sendfile(dst, src, (off_t *)offset_src, count));
}

static inline ssize_t zs_copy_file_range(int src, loff_t *offset_src, int dst, loff_t *offset_dst,
                                         size_t count, unsigned int flags)
{
    return zs_or_errno(copy_file_range(src, offset_src, dst, offset_dst, count, flags));
}

static inline ssize_t zs_linkat(int src_dir_fd, const char *src, int dst_dir_fd, const char *dst,
                                int flags)
{
    return zs_or_errno(linkat(src_dir_fd, src, dst_dir_fd, dst, flags));
}

static inline ssize_t zs_get_pipe_size(int pipe) { return zs_or_errno(fcntl(pipe, F_GETPIPE_SZ)); }

static inline ssize_t zs_set_pipe_size(int pipe, int size)
{
    return zs_or_errno(fcntl(pipe, F_SETPIPE_SZ, size));
}

/* The capacity got for a wish: half as much where the user's page budget, pipe-max-size or
 * memory forbids it, and so on down to what the pipe has; it also stays where it is too full. */
static inline ssize_t zs_wish_pipe_size(int pipe, size_t wish)
{
    ssize_t have = zs_get_pipe_size(pipe), got;
    if (have < 0)
        return have;
    for (;; wish /= 2) {
        got = zs_set_pipe_size(pipe, wish < ZS_PIPE_LIMIT ? (int)wish : ZS_PIPE_LIMIT);
        if (got != -EPERM && got != -ENOMEM && got != -EBUSY)
            return got;
        if (got == -EBUSY || wish / 2 <= (size_t)have)
            return have;
    }
}

static inline ssize_t zs_readable_bytes(int fd)
{
    int n = 0;
    ssize_t rc = zs_or_errno(ioctl(fd, FIONREAD, &n));
    return rc < 0 ? rc : n;
}

static inline ssize_t zs_status_flags(int fd) { return zs_or_errno(fcntl(fd, F_GETFL)); }

/* Whether two descriptors are of one file, as both ends of a pipe are. */
static inline ssize_t zs_same_file(int a, int b)
{
    struct stat one, other;
    return !fstat(a, &one) && !fstat(b, &other) && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

#endif
