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

#include <stdlib.h>
#include <string.h>

#include "_splice.h"
#include "_transfer_ends.h"

enum zs_want { ZS_DONE, ZS_WANT_SOURCE, ZS_WANT_SINK, ZS_WORKING, ZS_EXPIRED };
enum zs_side { ZS_NEITHER, ZS_SOURCE, ZS_SINK };
enum zs_path {
    ZS_SPLICE,      /* one end is a pipe */
    ZS_SPLICE_PIPE, /* through the private pipe */
    ZS_TAKE,        /* read or recv straight into memory */
    ZS_GIVE,        /* write or send straight from memory */
    ZS_COPY,        /* memory to memory */
    ZS_BUFFER,      /* read, then write: what is left where splice is refused */
};

/* A call carries at most this: a slow disk answers Ctrl-C between two calls. */
#define ZS_CHUNK ((size_t)1 << 20)
#define ZS_BUFFER_SIZE ((size_t)256 << 10)

struct zs_transfer {
    struct zs_end src, dst;
    enum zs_path path;
    enum zs_side side;    /* who blocks, or who failed */
    int ended;            /* the source has no more */
    int touch_flags, touched;
    int pipe[2];          /* the private pipe, or -1 */
    size_t pipe_size;     /* what was got */
    unsigned char *buffer;
    size_t buffer_at;     /* first staged byte in buffer */
    size_t stranded;      /* bytes in the stage */
    size_t left;          /* bytes still to be taken from the source */
    unsigned long long moved, received, copied; /* bytes the sink has, by how they got there */
    unsigned long long seen; /* progress at the last sleep */
    int futile;              /* sleeps that ended at once and brought nothing */
};

static inline unsigned long long zs_delivered(const struct zs_transfer *t)
{
    return t->moved + t->received + t->copied;
}

static inline size_t zs_least(size_t a, size_t b) { return a < b ? a : b; }

static inline int zs_wants(struct zs_transfer *t, enum zs_side side)
{
    t->side = side;
    return side == ZS_SOURCE ? ZS_WANT_SOURCE : ZS_WANT_SINK;
}

static inline int zs_failed(struct zs_transfer *t, enum zs_side side, ssize_t rc)
{
    t->side = side;
    return (int)rc;
}

static inline int zs_ended(struct zs_transfer *t)
{
    t->ended = 1;
    return ZS_DONE;
}

static inline ssize_t zs_open_stage(struct zs_transfer *t, size_t wish)
{
    ssize_t rc = zs_or_errno(pipe2(t->pipe, O_CLOEXEC | O_NONBLOCK));
    if (rc < 0) {
        t->pipe[0] = t->pipe[1] = -1;
        return rc;
    }
    rc = zs_wish_pipe_size(t->pipe[0], wish);
    if (rc > 0)
        t->pipe_size = rc;
    return rc;
}

/* Choose the path for the two ends and open what it needs. */
static inline ssize_t zs_transfer_open(struct zs_transfer *t, size_t pipe_wish)
{
    if (t->src.kind == ZS_MEMORY)
        t->path = t->dst.kind == ZS_MEMORY ? ZS_COPY : ZS_GIVE;
    else if (t->dst.kind == ZS_MEMORY)
        t->path = ZS_TAKE;
    else if (t->src.kind == ZS_PIPE || t->dst.kind == ZS_PIPE)
        t->path = ZS_SPLICE;
    else {
        t->path = ZS_SPLICE_PIPE;
        return zs_open_stage(t, pipe_wish);
    }
    return 0;
}

static inline void zs_transfer_close(struct zs_transfer *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->pipe[i] >= 0)
            close(t->pipe[i]);
        t->pipe[i] = -1;
    }
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

/* Before the first step of a run, and zs_transfer_end() after its last, whatever came of it.
 * SPLICE_F_NONBLOCK does not reach a socket: a splice into a full blocking one sleeps even
 * after POLLOUT. So such a sink is made non-blocking for the run; where that would be seen
 * by strangers (standard descriptors, touch_flags off) the last hop is send(MSG_DONTWAIT). */
static inline ssize_t zs_transfer_begin(struct zs_transfer *t)
{
    ssize_t rc = zs_end_begin(&t->src);
    if (rc < 0)
        return zs_failed(t, ZS_SOURCE, rc);
    ssize_t flags = zs_end_begin(&t->dst);
    if (flags < 0)
        return zs_failed(t, ZS_SINK, flags);
    if (t->src.messages && t->path <= ZS_SPLICE_PIPE)
        return zs_use_buffer(t); /* a splice would cut a message to the room there is */
    if (t->dst.kind != ZS_SOCKET || !t->dst.blocking || t->path > ZS_SPLICE_PIPE)
        return 0;
    if (!t->touch_flags || t->dst.fd <= 2)
        return zs_use_buffer(t);
    rc = zs_or_errno(fcntl(t->dst.fd, F_SETFL, flags | O_NONBLOCK));
    if (rc < 0)
        return zs_failed(t, ZS_SINK, rc);
    t->touched = 1;
    return 0;
}

static inline void zs_transfer_end(struct zs_transfer *t)
{
    if (!t->touched)
        return;
    t->touched = 0;
    int flags = fcntl(t->dst.fd, F_GETFL); /* anew: only our bit is ours */
    if (flags >= 0)
        fcntl(t->dst.fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* Whether splice is not possible here, and reading and writing may still be. */
static inline int zs_refused(const struct zs_transfer *t, ssize_t rc)
{
    return (rc == -EINVAL || rc == -ENOSYS || rc == -EOPNOTSUPP) && zs_delivered(t) == 0;
}

static inline int zs_fall_back(struct zs_transfer *t, enum zs_side side)
{
    ssize_t rc = zs_use_buffer(t);
    return rc < 0 ? zs_failed(t, side, rc) : ZS_WORKING;
}

/* The side to blame for an error of a splice between the two ends themselves. */
static inline enum zs_side zs_blame(const struct zs_transfer *t, ssize_t rc)
{
    if (rc == -EPIPE || rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG || rc == -EROFS)
        return ZS_SINK;
    if (rc == -EBADF) {
        int flags = fcntl(t->src.fd, F_GETFL);
        return flags < 0 || (flags & O_ACCMODE) == O_WRONLY ? ZS_SOURCE : ZS_SINK;
    }
    return t->src.kind == ZS_PIPE ? ZS_SINK : ZS_SOURCE; /* a pipe has few errors of its own */
}

static inline int zs_carry_splice(struct zs_transfer *t)
{
    if (t->src.kind != ZS_PIPE && zs_would_sleep(&t->src, POLLIN))
        return zs_wants(t, ZS_SOURCE);
    if (t->dst.kind == ZS_OTHER && !zs_ready(t->dst.fd, POLLOUT))
        return zs_wants(t, ZS_SINK);
    ssize_t n = zs_splice(t->src.fd, zs_end_offset(&t->src), t->dst.fd, zs_end_offset(&t->dst),
                          zs_least(t->left, ZS_CHUNK), SPLICE_F_NONBLOCK);
    if (n == 0)
        return zs_ended(t);
    if (n == -EAGAIN)
        return zs_wants(t, zs_ready(t->src.fd, POLLIN) ? ZS_SINK : ZS_SOURCE);
    if (zs_refused(t, n))
        return zs_fall_back(t, zs_blame(t, n));
    if (n < 0)
        return zs_failed(t, zs_blame(t, n), n);
    t->left -= n;
    t->moved += n;
    return ZS_WORKING;
}

static inline int zs_carry_take(struct zs_transfer *t)
{
    ssize_t n = zs_take(&t->src, t->dst.at, zs_least(t->left, ZS_CHUNK));
    if (n == 0)
        return zs_ended(t);
    if (n == -EAGAIN)
        return zs_wants(t, ZS_SOURCE);
    if (n < 0)
        return zs_failed(t, n == -EFAULT ? ZS_SINK : ZS_SOURCE, n);
    t->dst.at += n;
    t->left -= n;
    t->received += n;
    return ZS_WORKING;
}

static inline int zs_carry_give(struct zs_transfer *t)
{
    ssize_t n = zs_give(&t->dst, t->src.at, zs_least(t->left, ZS_CHUNK));
    if (n == -EAGAIN)
        return zs_wants(t, ZS_SINK);
    if (n <= 0)
        return zs_failed(t, n == -EFAULT ? ZS_SOURCE : ZS_SINK, n ? n : -EIO);
    t->src.at += n;
    t->left -= n;
    t->copied += n;
    return ZS_WORKING;
}

static inline int zs_carry_copy(struct zs_transfer *t)
{
    size_t n = zs_least(t->left, ZS_CHUNK);
    memmove(t->dst.at, t->src.at, n);
    t->src.at += n;
    t->dst.at += n;
    t->left -= n;
    t->copied += n;
    return ZS_WORKING;
}

/* Source to empty stage. */
static inline int zs_fill(struct zs_transfer *t)
{
    ssize_t n;
    if (t->path == ZS_BUFFER) {
        n = zs_take(&t->src, t->buffer, zs_least(t->left, ZS_BUFFER_SIZE));
        t->buffer_at = 0;
    } else {
        if (zs_would_sleep(&t->src, POLLIN))
            return zs_wants(t, ZS_SOURCE);
        n = zs_splice(t->src.fd, zs_end_offset(&t->src), t->pipe[1], NULL,
                      zs_least(t->left, t->pipe_size), SPLICE_F_NONBLOCK);
        if (zs_refused(t, n))
            return zs_fall_back(t, ZS_SOURCE);
    }
    if (n == 0)
        return zs_ended(t);
    if (n == -EAGAIN)
        return zs_wants(t, ZS_SOURCE);
    if (n < 0)
        return zs_failed(t, ZS_SOURCE, n);
    t->left -= n;
    t->stranded = n;
    return ZS_WORKING;
}

/* Stage to sink. */
static inline int zs_drain(struct zs_transfer *t)
{
    ssize_t n;
    if (t->path == ZS_BUFFER)
        n = zs_give(&t->dst, t->buffer + t->buffer_at, t->stranded);
    else if (t->dst.kind == ZS_OTHER && !zs_ready(t->dst.fd, POLLOUT))
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

/* One system call's worth: ZS_WORKING, ZS_DONE, the side that blocks, or -errno with t->side. */
static inline int zs_transfer_once(struct zs_transfer *t)
{
    if (t->stranded)
        return zs_drain(t);
    if (t->ended || t->left == 0)
        return ZS_DONE;
    switch (t->path) {
    case ZS_SPLICE: return zs_carry_splice(t);
    case ZS_TAKE: return zs_carry_take(t);
    case ZS_GIVE: return zs_carry_give(t);
    case ZS_COPY: return zs_carry_copy(t);
    default: return zs_fill(t);
    }
}

#endif
