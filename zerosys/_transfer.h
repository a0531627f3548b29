/* Bytes from a descriptor or memory to a descriptor or memory: one loop, cut into steps.
 *
 * A step never sleeps for a side and holds no lock, so the same steps serve a thread that
 * waits in poll() (_transfer_wait.h) and an event loop.
 *
 * Bytes on their way are in one place only, the stage: a private pipe, or a buffer where
 * splice is refused. A stage is emptied before it is filled again. So an EAGAIN while it
 * holds bytes can only mean the sink, and one while it is empty only the source: the
 * kernel itself does not tell them apart, for a pipe counts slots and not bytes. */
#ifndef ZEROSYS_TRANSFER_H
#define ZEROSYS_TRANSFER_H

#include "_transfer_stage.h"

/* Before the first step of a run, and zs_transfer_end() after its last, whatever came of it.
 * SPLICE_F_NONBLOCK does not reach a socket: a splice into a full blocking one sleeps even
 * after POLLOUT. So such a sink is made non-blocking for the run (wants_nonblock, which
 * _nonblock does: several runs can share a sink); where that would be seen by strangers
 * (standard descriptors, touch_flags off) the last hop is send(MSG_DONTWAIT). */
static inline ssize_t zs_transfer_begin(struct zs_transfer *t)
{
    t->would_copy = t->wants_nonblock = t->reused = 0;
    t->progressed = zs_clock(CLOCK_MONOTONIC);
    if (t->strict && (t->path == ZS_GIVE || t->path == ZS_COPY ||
                      (t->stable && t->path != ZS_TAKE && zs_hands_on_pages(t)))) {
        t->would_copy = 1;
        return zs_failed(t, ZS_SOURCE, -EOPNOTSUPP);
    }
    ssize_t rc = zs_end_begin(&t->src);
    if (rc < 0)
        return zs_failed(t, ZS_SOURCE, rc);
    rc = zs_end_begin(&t->dst);
    if (rc < 0)
        return zs_failed(t, ZS_SINK, rc);
    if (t->path >= ZS_TAKE)
        return 0;
    if (t->src.messages) { /* a splice would cut a message to the room there is */
        rc = zs_use_buffer(t);
        return rc < 0 ? zs_failed(t, ZS_SOURCE, rc) : 0;
    }
    if (t->dst.kind != ZS_SOCKET || !t->dst.blocking)
        return 0;
    if (!t->touch_flags || t->dst.fd <= 2) {
        rc = zs_use_buffer(t);
        return rc < 0 ? zs_failed(t, ZS_SINK, rc) : 0;
    }
    t->wants_nonblock = 1;
    return 0;
}

/* The side to blame for an error of a call between the two ends themselves. */
static inline enum zs_side zs_blame(const struct zs_transfer *t, ssize_t rc)
{
    if (rc == -EPIPE || rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG || rc == -EROFS)
        return ZS_SINK;
    if (rc == -EBADF) {
        int flags = fcntl(t->src.fd, F_GETFL);
        return flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY ? ZS_SOURCE : ZS_SINK;
    }
    if (t->src.kind == ZS_FILE && t->dst.kind == ZS_SOCKET)
        return rc == -EIO || rc == -ESTALE || rc == -EISDIR ? ZS_SOURCE : ZS_SINK;
    return t->src.kind == ZS_PIPE ? ZS_SINK : ZS_SOURCE; /* a pipe has few errors of its own */
}

/* What a call from end to end answered: *n* bytes carried, or why none were. */
static inline int zs_carried(struct zs_transfer *t, ssize_t n)
{
    if (n == 0)
        return zs_doubtful_end(t) ? zs_fall_back(t, ZS_SOURCE) : zs_ended(t);
    if (n == -EAGAIN && t->spinning)
        return zs_wants(t, ZS_SOURCE); /* or the sink: who it is matters to a sleep only */
    if (n == -EAGAIN)
        return zs_wants(t, t->src.kind == ZS_FILE || zs_ready(t->src.fd, POLLIN) ? ZS_SINK : ZS_SOURCE);
    if (zs_refused(t, n))
        return zs_fall_back(t, zs_blame(t, n));
    if (n < 0)
        return zs_failed(t, zs_blame(t, n), n);
    zs_took(t, n);
    t->moved += n;
    return ZS_WORKING;
}

static inline int zs_carry_splice(struct zs_transfer *t)
{
    if (t->src.kind != ZS_PIPE && zs_would_sleep(&t->src, POLLIN))
        return zs_wants(t, ZS_SOURCE);
    if (t->dst.kind == ZS_OTHER && zs_would_sleep(&t->dst, POLLOUT))
        return zs_wants(t, ZS_SINK);
    return zs_carried(t, zs_splice(t->src.fd, zs_end_offset(&t->src), t->dst.fd, zs_end_offset(&t->dst),
                                   zs_room(t, ZS_CHUNK), SPLICE_F_NONBLOCK));
}

static inline int zs_carry_sendfile(struct zs_transfer *t)
{
    return zs_carried(t, zs_sendfile(t->dst.fd, t->src.fd, zs_end_offset(&t->src), zs_room(t, ZS_CHUNK)));
}

static inline int zs_carry_range(struct zs_transfer *t)
{
    return zs_carried(t, zs_copy_file_range(t->src.fd, zs_end_offset(&t->src), t->dst.fd,
                                            zs_end_offset(&t->dst), zs_room(t, ZS_RANGE_CHUNK), 0));
}

/* All that there is in one call, or nothing: where it is refused the bytes are carried. */
static inline int zs_carry_clone(struct zs_transfer *t)
{
    struct stat status;
    off_t src = t->src.offset >= 0 ? t->src.offset : lseek(t->src.fd, 0, SEEK_CUR);
    off_t dst = t->dst.offset >= 0 ? t->dst.offset : lseek(t->dst.fd, 0, SEEK_CUR);
    if (t->rate > 0 || src < 0 || dst < 0 || fstat(t->src.fd, &status) < 0 || status.st_size <= src)
        return zs_fall_back(t, ZS_SOURCE);
    size_t n = zs_least(t->left, status.st_size - src);
    struct file_clone_range range = {.src_fd = t->src.fd, .src_offset = src, .src_length = n, .dest_offset = dst};
    if (ioctl(t->dst.fd, FICLONERANGE, &range) < 0)
        return zs_fall_back(t, ZS_SOURCE);
    *(t->src.offset >= 0 ? &t->src.offset : &src) += n;
    *(t->dst.offset >= 0 ? &t->dst.offset : &dst) += n;
    if (t->src.offset < 0)
        lseek(t->src.fd, src, SEEK_SET);
    if (t->dst.offset < 0)
        lseek(t->dst.fd, dst, SEEK_SET);
    zs_took(t, n);
    t->moved += n;
    return zs_ended(t);
}

static inline int zs_carry_take(struct zs_transfer *t)
{
    ssize_t n = zs_take(&t->src, t->dst.at, zs_room(t, ZS_CHUNK));
    if (n == 0)
        return zs_ended(t);
    if (n == -EAGAIN)
        return zs_wants(t, ZS_SOURCE);
    if (n < 0)
        return zs_failed(t, n == -EFAULT ? ZS_SINK : ZS_SOURCE, n);
    t->dst.at += n;
    zs_took(t, n);
    t->received += n;
    return ZS_WORKING;
}

static inline int zs_carry_give(struct zs_transfer *t)
{
    ssize_t n = zs_give(&t->dst, t->src.at, zs_room(t, ZS_CHUNK));
    if (n == -EAGAIN)
        return zs_wants(t, ZS_SINK);
    if (n <= 0)
        return zs_failed(t, n == -EFAULT ? ZS_SOURCE : ZS_SINK, n ? n : -EIO);
    t->src.at += n;
    zs_took(t, n);
    t->copied += n;
    return ZS_WORKING;
}

static inline int zs_carry_copy(struct zs_transfer *t)
{
    size_t n = zs_room(t, ZS_CHUNK);
    memmove(t->dst.at, t->src.at, n);
    t->src.at += n;
    t->dst.at += n;
    zs_took(t, n);
    t->copied += n;
    return ZS_WORKING;
}

/* Whether the sink takes no pages: asked of the empty stage, when nothing is taken from the source
 * yet. A sink without splice_write (/dev/full), or open with O_APPEND, refuses even that. */
static inline int zs_sink_refuses(const struct zs_transfer *t)
{
    loff_t at = t->dst.offset;
    return zs_refused(t, zs_splice(t->pipe[0], NULL, t->dst.fd, at < 0 ? NULL : &at, 1, SPLICE_F_NONBLOCK));
}

/* Source to empty stage. */
static inline int zs_fill(struct zs_transfer *t)
{
    ssize_t n;
    if (t->strict && t->taken == 0 && zs_sink_refuses(t))
        return zs_fall_back(t, ZS_SINK);
    if (t->path == ZS_BUFFER) {
        n = zs_take(&t->src, t->buffer, zs_room(t, ZS_BUFFER_SIZE));
        t->buffer_at = 0;
    } else {
        if (zs_would_sleep(&t->src, POLLIN))
            return zs_wants(t, ZS_SOURCE);
        n = zs_splice(t->src.fd, zs_end_offset(&t->src), t->pipe[1], NULL, zs_room(t, t->pipe_size),
                      SPLICE_F_NONBLOCK);
        if (zs_refused(t, n) || (n == 0 && zs_doubtful_end(t)))
            return zs_fall_back(t, ZS_SOURCE);
    }
    if (n == 0)
        return zs_ended(t);
    if (n == -EAGAIN)
        return zs_wants(t, ZS_SOURCE);
    if (n < 0)
        return zs_failed(t, ZS_SOURCE, n);
    zs_took(t, n);
    t->stranded = n;
    return ZS_WORKING;
}

/* Stage to sink. */
static inline int zs_drain(struct zs_transfer *t)
{
    ssize_t n;
    if (t->path == ZS_BUFFER)
        n = zs_give(&t->dst, t->buffer + t->buffer_at, t->stranded);
    else if (t->dst.kind == ZS_OTHER && zs_would_sleep(&t->dst, POLLOUT))
        n = -EAGAIN;
    else
        n = zs_splice(t->pipe[0], NULL, t->dst.fd, zs_end_offset(&t->dst), t->stranded,
                      SPLICE_F_NONBLOCK);
    if (n == -EAGAIN)
        return zs_wants(t, ZS_SINK);
    if (t->path != ZS_BUFFER && zs_refused(t, n))
        return zs_fall_back(t, ZS_SINK);
    if (n <= 0)
        return zs_failed(t, ZS_SINK, n ? n : -EIO);
    t->stranded -= n;
    t->buffer_at += n;
    *(t->path == ZS_BUFFER ? &t->copied : &t->moved) += n;
    return ZS_WORKING;
}

/* One system call's worth: ZS_WORKING, ZS_DONE, what is waited for, or -errno with t->side. */
static inline int zs_transfer_once(struct zs_transfer *t)
{
    if (t->stranded)
        return zs_drain(t);
    if (t->ended || t->left == 0)
        return ZS_DONE;
    if (t->rate > 0 && !zs_may_take(t))
        return ZS_WANT_TIME;
    switch (t->path) {
    case ZS_SPLICE: return zs_carry_splice(t);
    case ZS_SENDFILE: return zs_carry_sendfile(t);
    case ZS_CLONE: return zs_carry_clone(t);
    case ZS_RANGE: return zs_carry_range(t);
    case ZS_TAKE: return zs_carry_take(t);
    case ZS_GIVE: return zs_carry_give(t);
    case ZS_COPY: return zs_carry_copy(t);
    default: return zs_fill(t);
    }
}

#endif
