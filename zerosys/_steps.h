/* A transfer in steps, for event loops: the pipe between its ends is lent to it while bytes are
 * in it, and taken back by moving them into memory. */
#ifndef ZEROSYS_STEPS_H
#define ZEROSYS_STEPS_H

#include "_transfer_wait.h"

#define ZS_WANT_PIPE (ZS_STALLED + 1) /* nothing staged, and no pipe to fill */
#define ZS_TURN_BYTES ((unsigned long long)2 << 20)
#define ZS_TURN_CALLS 64

struct zs_steps {
    struct zs_transfer *t;
    int parked; /* memory holds what is staged; after it goes on as planned */
    enum zs_path planned;
    int stop;   /* a turn in a thread shall end */
};

static inline void zs_stage_in_memory(struct zs_steps *s, unsigned char *room)
{
    s->t->buffer = room;
    s->t->buffer_at = 0;
    s->planned = s->t->path;
    s->t->path = ZS_BUFFER;
    s->parked = 1;
}

/* What the lent pipe holds goes to memory; the pipe is empty and can be taken back. */
static inline ssize_t zs_park(struct zs_steps *s)
{
    unsigned char *room = malloc(s->t->stranded ? s->t->stranded : 1);
    if (!room)
        return -ENOMEM;
    ssize_t rc = zs_take_stranded(s->t, room);
    if (rc < 0) {
        free(room);
        return rc;
    }
    zs_stage_in_memory(s, room);
    return 0;
}

/* *n* bytes that were read from the source before go first. */
static inline ssize_t zs_precede(struct zs_steps *s, const void *bytes, size_t n)
{
    struct zs_transfer *t = s->t;
    if (t->path == ZS_TAKE) {
        memcpy(t->dst.at, bytes, n);
        t->dst.at += n;
        t->copied += n;
    } else {
        unsigned char *room = malloc(n);
        if (!room)
            return -ENOMEM;
        memcpy(room, bytes, n);
        free(t->buffer);
        zs_stage_in_memory(s, room);
        t->stranded = n;
    }
    zs_took(t, n);
    return 0;
}

static inline void zs_drop_buffer(struct zs_transfer *t)
{
    free(t->buffer);
    t->buffer = NULL;
}

/* One call, after which an empty buffer is given up: a thousand idle transfers have none. */
static inline int zs_step_once(struct zs_steps *s)
{
    struct zs_transfer *t = s->t;
    if (t->path == ZS_SPLICE_PIPE && t->pipe[0] < 0 && !t->ended && t->left)
        return ZS_WANT_PIPE;
    if (t->path == ZS_BUFFER && !t->buffer && !(t->buffer = malloc(ZS_BUFFER_SIZE)))
        return zs_failed(t, ZS_SOURCE, -ENOMEM);
    int rc = zs_transfer_once(t);
    if (s->parked && !t->stranded) {
        zs_drop_buffer(t);
        t->path = s->planned;
        s->parked = 0;
    }
    return rc;
}

static inline int zs_finish_turn(struct zs_transfer *t, int rc)
{
    if (t->path == ZS_BUFFER && !t->stranded)
        zs_drop_buffer(t);
    return rc;
}

/* Calls until a side blocks, the transfer is done or fails, or the turn is over: ZS_WORKING, with
 * nothing staged, so that only a sink that blocks keeps a pipe from others. */
static inline int zs_turn(struct zs_steps *s)
{
    struct zs_transfer *t = s->t;
    unsigned long long most = zs_delivered(t) + ZS_TURN_BYTES;
    int rc, calls = 0;
    t->side = ZS_NEITHER;
    do
        rc = zs_step_once(s);
    while (rc == ZS_WORKING && (t->stranded || (++calls < ZS_TURN_CALLS && zs_delivered(t) < most)));
    return zs_finish_turn(t, rc);
}

/* The same for a thread of its own, which may take longer. */
static inline int zs_long_turn(struct zs_steps *s)
{
    struct zs_transfer *t = s->t;
    long long until = zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE;
    int rc;
    t->side = ZS_NEITHER;
    do
        rc = zs_step_once(s);
    while (rc == ZS_WORKING && !__atomic_load_n(&s->stop, __ATOMIC_RELAXED) &&
           (t->stranded || zs_clock(CLOCK_MONOTONIC_COARSE) < until));
    return zs_finish_turn(t, rc);
}

#endif
