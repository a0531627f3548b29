/* Where bytes are on their way, and the ways there are: the fastest that this pair of ends may have
 * comes first, and each refusal goes one down, while nothing has moved. */
#ifndef ZEROSYS_TRANSFER_STAGE_H
#define ZEROSYS_TRANSFER_STAGE_H

#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "_splice.h"
#include "_transfer_state.h"

/* From a file to a socket, up to this size by sendfile, above it through a pipe of our own. sendfile
 * has a pipe of 16 pages inside, so it hands the socket 64 KiB at a time: for large files a pipe of 1 MiB
 * takes 0.7 (TCP) to 0.9 (Unix) of its CPU time. But that pipe costs 7 us to make and widen, which
 * sendfile saves: 0.3 to 0.9 of the CPU time up to half a MiB, and about the same at one
 * (benchmarks/pump_small.py, Linux 6.18). */
#define ZS_SMALL_FILE ((off_t)512 << 10)

static inline ssize_t zs_open_stage(struct zs_transfer *t)
{
    if (t->pipe[0] >= 0 || t->borrows)
        return 0;
    ssize_t rc = zs_or_errno(pipe2(t->pipe, O_CLOEXEC | O_NONBLOCK));
    if (rc < 0) {
        t->pipe[0] = t->pipe[1] = -1;
        return rc;
    }
    rc = zs_wish_pipe_size(t->pipe[0], t->pipe_wish);
    if (rc > 0)
        t->pipe_size = rc;
    return rc;
}

static inline void zs_transfer_close(struct zs_transfer *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->pipe[i] >= 0 && !t->borrows)
            close(t->pipe[i]);
        t->pipe[i] = -1;
    }
    zs_end_close(&t->src);
    zs_end_close(&t->dst);
    free(t->buffer);
    t->buffer = NULL;
}

/* Copy what the stage holds into memory with room for it; the caller forgets it. */
static inline ssize_t zs_take_stranded(struct zs_transfer *t, void *into)
{
    if (t->path == ZS_BUFFER) {
        memcpy(into, t->buffer + t->buffer_at, t->stranded);
        return t->stranded;
    }
    for (size_t got = 0; got < t->stranded;) {
        ssize_t rc = zs_or_errno(read(t->pipe[0], (char *)into + got, t->stranded - got));
        if (rc <= 0)
            return rc ? rc : -EIO;
        got += rc;
    }
    return t->stranded;
}

/* Go on with read and write. What the private pipe holds comes along. */
static inline ssize_t zs_use_buffer(struct zs_transfer *t)
{
    if (t->path == ZS_BUFFER)
        return 0;
    if (t->strict) {
        t->would_copy = 1;
        return -EOPNOTSUPP;
    }
    t->buffer = malloc(t->stranded > ZS_BUFFER_SIZE ? t->stranded : ZS_BUFFER_SIZE);
    if (!t->buffer)
        return -ENOMEM;
    ssize_t rc = zs_take_stranded(t, t->buffer);
    if (rc < 0)
        return rc;
    t->buffer_at = 0;
    t->path = ZS_BUFFER;
    return 0;
}

static inline ssize_t zs_use_pipe(struct zs_transfer *t)
{
    ssize_t rc = zs_open_stage(t);
    t->path = ZS_SPLICE_PIPE;
    return rc < 0 ? rc : 0;
}

static inline ssize_t zs_next_path(struct zs_transfer *t)
{
    switch (t->path) {
    case ZS_CLONE: t->path = ZS_RANGE; return 0;
    case ZS_RANGE:
    case ZS_SENDFILE: return zs_use_pipe(t);
    default: return zs_use_buffer(t);
    }
}

static inline int zs_fall_back(struct zs_transfer *t, enum zs_side side)
{
    ssize_t rc = zs_next_path(t);
    return rc < 0 ? zs_failed(t, side, rc) : ZS_WORKING;
}

/* Whether the kernel will not carry between these ends this way, and another may still be tried.
 * EXDEV and EBADF (a sink open with O_APPEND) are copy_file_range's. */
static inline int zs_refused(const struct zs_transfer *t, ssize_t rc)
{
    int refusal = rc == -EINVAL || rc == -ENOSYS || rc == -EOPNOTSUPP;
    if (t->path == ZS_RANGE)
        refusal |= rc == -EXDEV || rc == -EBADF || rc == -EPERM || rc == -ETXTBSY || rc == -EOVERFLOW;
    return refusal && t->moved == 0;
}

/* Pseudo-files have answered 0 to what they cannot splice: only read() knows that this is the end. */
static inline int zs_doubtful_end(const struct zs_transfer *t)
{
    unsigned char byte;
    if (t->src.kind != ZS_FILE || zs_delivered(t) || t->stranded)
        return 0;
    off_t at = t->src.offset >= 0 ? t->src.offset : lseek(t->src.fd, 0, SEEK_CUR);
    return at >= 0 && pread(t->src.fd, &byte, 1, at) == 1;
}

static inline int zs_is_small(const struct zs_transfer *t)
{
    struct stat status;
    return t->left <= (size_t)ZS_SMALL_FILE ||
           (fstat(t->src.fd, &status) == 0 && status.st_size <= ZS_SMALL_FILE && status.st_size > 0);
}

/* Pages that are handed to a pipe or a socket can be written by whoever had them before. */
static inline int zs_hands_on_pages(const struct zs_transfer *t) { return t->dst.kind != ZS_FILE; }

/* Choose the path for the two ends and open what it needs. */
static inline ssize_t zs_transfer_open(struct zs_transfer *t)
{
    if (t->src.kind == ZS_MEMORY)
        t->path = t->dst.kind == ZS_MEMORY ? ZS_COPY : ZS_GIVE;
    else if (t->dst.kind == ZS_MEMORY)
        t->path = ZS_TAKE;
    else if (t->stable && zs_hands_on_pages(t))
        return t->strict ? 0 : zs_use_buffer(t);
    else if (t->src.kind == ZS_PIPE || t->dst.kind == ZS_PIPE)
        t->path = ZS_SPLICE;
    else if (t->src.kind == ZS_FILE && t->dst.kind == ZS_FILE)
        t->path = ZS_CLONE;
    else if (t->src.kind == ZS_FILE && t->dst.kind == ZS_SOCKET && zs_is_small(t))
        t->path = ZS_SENDFILE;
    else
        return zs_use_pipe(t);
    return 0;
}

#endif
