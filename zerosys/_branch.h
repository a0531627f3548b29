/* One sink of a fan-out: a pipe of its own, which is how far it may lag behind, and what is due to it. */
#ifndef ZEROSYS_BRANCH_H
#define ZEROSYS_BRANCH_H

#include "_transfer_wait.h"

struct zs_branch {
    struct zs_end dst;
    int pipe[2];
    size_t pipe_size;
    size_t held;            /* bytes in the pipe */
    size_t ahead;           /* bytes it was given that the source still has too */
    int skipping;           /* it is being left out, until a unit begins for which it has room */
    size_t owed;            /* bytes to come of the unit that was begun when it had no more room */
    unsigned char *rest;    /* that unit's bytes which its pipe has not */
    size_t rest_at, rest_end;
    int copies;             /* its sink cannot be spliced to */
    unsigned char *buffer;  /* then bytes go through here */
    size_t buffer_at, buffered;
    unsigned long long moved, copied, dropped;
    unsigned long long rested; /* bytes that went through the rest */
    int blocked;
    unsigned long long had; /* of moved and copied, when it was seen to take something */
    long long took_at;      /* and when that was; 0 until the source has ended */
    int error;              /* what it died of, or 0 */
};

static inline ssize_t zs_branch_open(struct zs_branch *b, size_t pipe_wish)
{
    ssize_t rc = zs_or_errno(pipe2(b->pipe, O_CLOEXEC | O_NONBLOCK));
    if (rc < 0) {
        b->pipe[0] = b->pipe[1] = -1;
        return rc;
    }
    rc = zs_wish_pipe_size(b->pipe[0], pipe_wish);
    if (rc > 0)
        b->pipe_size = rc;
    return rc;
}

static inline void zs_branch_close(struct zs_branch *b)
{
    for (int i = 0; i < 2; i++) {
        if (b->pipe[i] >= 0)
            close(b->pipe[i]);
        b->pipe[i] = -1;
    }
    zs_end_close(&b->dst);
    free(b->rest);
    free(b->buffer);
    b->rest = b->buffer = NULL;
}

/* Bytes that it was given and its sink has not. */
static inline size_t zs_branch_holds(const struct zs_branch *b)
{
    return b->held + b->buffered + (b->rest_end - b->rest_at);
}

/* Bytes that were taken from the source for this sink, and that it has not. What it is ahead by, the
 * source still has. */
static inline size_t zs_branch_stranded(const struct zs_branch *b)
{
    size_t has = zs_branch_holds(b);
    return has > b->ahead ? has - b->ahead : 0;
}

/* Bytes that its sink has, and the source too. */
static inline size_t zs_branch_beyond(const struct zs_branch *b)
{
    size_t has = zs_branch_holds(b);
    return b->ahead > has ? b->ahead - has : 0;
}

static inline int zs_branch_is_empty(const struct zs_branch *b)
{
    return !b->held && !b->buffered && b->rest_at == b->rest_end;
}

/* The pipe is read out by us: for a sink that cannot be spliced to. */
static inline ssize_t zs_branch_copy(struct zs_branch *b)
{
    if (!b->buffer && !(b->buffer = malloc(ZS_BUFFER_SIZE)))
        return -ENOMEM;
    if (!b->buffered) {
        ssize_t got = zs_or_errno(read(b->pipe[0], b->buffer, zs_least(b->held, ZS_BUFFER_SIZE)));
        if (got <= 0)
            return got ? got : -EIO;
        b->buffer_at = 0;
        b->buffered = got;
        b->held -= got;
    }
    ssize_t n = zs_give(&b->dst, b->buffer + b->buffer_at, b->buffered);
    if (n > 0) {
        b->buffer_at += n;
        b->buffered -= n;
        b->copied += n;
    }
    return n;
}

static inline ssize_t zs_branch_splice(struct zs_branch *b)
{
    if (b->dst.kind == ZS_OTHER && zs_would_sleep(&b->dst, POLLOUT))
        return -EAGAIN;
    ssize_t n = zs_splice(b->pipe[0], NULL, b->dst.fd, zs_end_offset(&b->dst), b->held, SPLICE_F_NONBLOCK);
    if (n > 0) {
        b->held -= n;
        b->moved += n;
    }
    return n;
}

/* One call from its pipe to its sink. A sink that fails ends alone: its error is kept. */
static inline void zs_branch_carry(struct zs_branch *b, int strict, int *would_copy)
{
    ssize_t n = -EAGAIN;
    if (!b->copies && b->held) {
        n = zs_branch_splice(b);
        if ((n == -EINVAL || n == -ENOSYS || n == -EOPNOTSUPP) && !b->moved && !b->copied) {
            b->copies = 1;
            *would_copy |= strict;
            if (strict)
                return;
        }
    }
    if (b->copies)
        n = zs_branch_copy(b);
    b->blocked = n == -EAGAIN;
    if (n < 0 && n != -EAGAIN)
        b->error = (int)-n;
    else if (n == 0)
        b->error = EIO;
}

/* Give up on a sink that has taken nothing for *linger* ns since the source's end. */
static inline void zs_branch_linger(struct zs_branch *b, long long linger)
{
    unsigned long long has = b->moved + b->copied;
    long long now = zs_clock(CLOCK_MONOTONIC);
    if (!b->took_at || has != b->had) {
        b->had = has;
        b->took_at = now;
    } else if (now - b->took_at >= linger)
        b->error = ETIMEDOUT;
}

/* Put the end of a unit that was begun behind what its pipe has; 0 once it is all there. */
static inline ssize_t zs_branch_settle(struct zs_branch *b)
{
    while (b->rest_at < b->rest_end) {
        ssize_t n = zs_or_errno(write(b->pipe[1], b->rest + b->rest_at, b->rest_end - b->rest_at));
        if (n <= 0)
            return n ? n : -EAGAIN;
        b->rest_at += n;
        b->rested += n;
        b->held += n;
    }
    b->rest_at = b->rest_end = 0;
    return 0;
}

#endif
