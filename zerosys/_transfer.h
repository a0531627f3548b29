/* Bytes from a descriptor or memory to a descriptor or memory: one loop, cut into steps.
 *
 * A step goes on until the work is done, a side would block, something fails, or its time
 * slice is over. It never sleeps for a side and holds no lock, so the same steps serve a
 * thread that waits in poll() and an event loop.
 *
 * Bytes on their way are in one place only, the stage: a private pipe, or a buffer where
 * splice is refused. A stage is emptied before it is filled again. So an EAGAIN while it
 * holds bytes can only mean the sink, and one while it is empty only the source: the
 * kernel itself does not tell them apart, for a pipe counts slots and not bytes. */
#ifndef ZEROSYS_TRANSFER_H
#define ZEROSYS_TRANSFER_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

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
#define ZS_SLICE 50000000LL     /* ns of one step */
#define ZS_PATIENCE 500000000LL /* ns of one sleep: a signal that just missed it waits no longer */

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

static inline long long zs_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
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

/* The capacity got: a wish that the user's page budget or pipe-max-size cuts down. */
static inline ssize_t zs_wish_pipe_size(int pipe, size_t wish)
{
    ssize_t have = zs_get_pipe_size(pipe), got;
    for (;;) {
        got = zs_set_pipe_size(pipe, (int)wish);
        if (got != -EPERM)
            return got == -EBUSY ? have : got;
        if (have < 0 || (wish /= 2) <= (size_t)have)
            return have;
    }
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

/* ZS_DONE, the side that blocks, ZS_WORKING when the slice is over, or -errno with t->side. */
static inline int zs_transfer_step(struct zs_transfer *t)
{
    long long until = zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE;
    int rc;
    t->side = ZS_NEITHER;
    do
        rc = zs_transfer_once(t);
    while (rc == ZS_WORKING && zs_clock(CLOCK_MONOTONIC_COARSE) < until);
    return rc;
}

static inline int zs_sleep(struct pollfd *watched, int n, long long ns)
{
    struct timespec time = {.tv_sec = ns / 1000000000LL, .tv_nsec = ns % 1000000000LL};
    return (int)zs_or_errno(ppoll(watched, n, &time, NULL));
}

/* Sleep until the side that a step wants can go on (0), or *deadline* has passed (in ns of
 * CLOCK_MONOTONIC, -1 is never; ZS_EXPIRED), or a signal may have come (-EINTR).
 * A descriptor that poll calls ready and that then moves nothing must not make us spin: after
 * the second such round each costs a pause of a millisecond, doubled up to 64. */
static inline int zs_transfer_wait(struct zs_transfer *t, int want, long long deadline)
{
    struct pollfd one = {.fd = want == ZS_WANT_SOURCE ? t->src.fd : t->dst.fd,
                         .events = want == ZS_WANT_SOURCE ? POLLIN : POLLOUT};
    unsigned long long progress = zs_delivered(t) + t->stranded;
    long long most = ZS_PATIENCE, left = ZS_PATIENCE;
    if (deadline >= 0 && (left = deadline - zs_clock(CLOCK_MONOTONIC)) <= 0)
        return ZS_EXPIRED;
    t->futile = progress == t->seen ? t->futile : 0;
    t->seen = progress;
    int rc = zs_sleep(&one, 1, left < most ? left : most);
    if (rc == 0)
        return -EINTR;
    if (rc > 0 && ++t->futile > 2) {
        most = 1000000LL << (t->futile < 9 ? t->futile - 3 : 6);
        rc = zs_sleep(NULL, 0, left < most ? left : most);
    }
    return rc < 0 ? rc : 0;
}

/* Step and sleep until ZS_DONE, ZS_EXPIRED, ZS_WORKING (time to look at signals) or -errno. */
static inline int zs_transfer_drive(struct zs_transfer *t, long long deadline)
{
    for (;;) {
        int rc = zs_transfer_step(t);
        if (rc == ZS_WORKING && deadline >= 0 && zs_clock(CLOCK_MONOTONIC) >= deadline)
            return ZS_EXPIRED;
        if (rc != ZS_WANT_SOURCE && rc != ZS_WANT_SINK)
            return rc;
        if ((rc = zs_transfer_wait(t, rc, deadline)) != 0)
            return rc;
    }
}

#endif
