/* What a transfer is: its two ends, its stage, its counts, and how it tells what it waits for. */
#ifndef ZEROSYS_TRANSFER_STATE_H
#define ZEROSYS_TRANSFER_STATE_H

#include <time.h>

#include "_transfer_ends.h"

enum zs_want {
    ZS_DONE,
    ZS_WANT_SOURCE,
    ZS_WANT_SINK,
    ZS_WANT_TIME, /* the rate allows no more yet */
    ZS_WORKING,
    ZS_EXPIRED,
    ZS_STALLED,
};
enum zs_side { ZS_NEITHER, ZS_SOURCE, ZS_SINK };
enum zs_path {
    ZS_SPLICE,      /* one end is a pipe */
    ZS_SPLICE_PIPE, /* through the private pipe */
    ZS_SENDFILE,
    ZS_CLONE,       /* the sink's file shares the source's blocks */
    ZS_RANGE,       /* copy_file_range */
    ZS_TAKE,        /* read or recv straight into memory */
    ZS_GIVE,        /* write or send straight from memory */
    ZS_COPY,        /* memory to memory */
    ZS_BUFFER,      /* read, then write: what is left where the kernel will not carry */
};

/* A call carries at most this: a slow disk answers Ctrl-C between two calls. */
#define ZS_CHUNK ((size_t)1 << 20)
#define ZS_RANGE_CHUNK ((size_t)16 << 20) /* a server that copies for us wants few, long calls */
#define ZS_BUFFER_SIZE ((size_t)256 << 10)
#define ZS_SECOND 1000000000LL

struct zs_transfer {
    struct zs_end src, dst;
    enum zs_path path;
    enum zs_side side;    /* who blocks, or who failed */
    int ended;            /* the source has no more */
    int touch_flags;
    int wants_nonblock;   /* the sink's description needs O_NONBLOCK for this run */
    int strict;           /* rather fail than copy */
    int stable;           /* rather copy than hand on pages that others can still write */
    int would_copy;       /* what strict refused */
    int reused;           /* the descriptor of t->side means another file by now */
    int borrows;          /* the private pipe is lent by whoever steps (_steps.h), and theirs to close */
    int pipe[2];          /* the private pipe, or -1 */
    size_t pipe_wish;
    size_t pipe_size;     /* what was got */
    unsigned char *buffer;
    size_t buffer_at;     /* first staged byte in buffer */
    size_t stranded;      /* bytes in the stage */
    size_t left;          /* bytes still to be taken from the source */
    unsigned long long taken;
    unsigned long long moved, received, copied; /* bytes the sink has, by how they got there */
    unsigned long long seen; /* progress at the last sleep */
    int futile;              /* sleeps that ended at once and brought nothing */
    long long stall;         /* ns that may pass without progress; -1: any */
    long long progressed;    /* when there last was some */
    long long spin;          /* ns to try again before a sleep: a sleep costs more than most waits */
    int spinning;
    double rate;             /* bytes a second; 0: as fast as can be */
    double credit;           /* bytes that the rate allows now */
    long long credited;      /* up to when */
};

static inline unsigned long long zs_delivered(const struct zs_transfer *t)
{
    return t->moved + t->received + t->copied;
}

/* Both hops count: into the stage, and out of it. */
static inline unsigned long long zs_progress(const struct zs_transfer *t)
{
    return 2 * zs_delivered(t) + t->stranded;
}

static inline size_t zs_least(size_t a, size_t b) { return a < b ? a : b; }

static inline long long zs_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * ZS_SECOND + now.tv_nsec;
}

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

/* How much may be taken from the source by one call that can carry *most*. */
static inline size_t zs_room(const struct zs_transfer *t, size_t most)
{
    most = zs_least(t->left, most);
    return t->rate > 0 ? zs_least(most, (size_t)t->credit) : most;
}

static inline void zs_took(struct zs_transfer *t, size_t n)
{
    t->left -= n;
    t->taken += n;
    t->credit -= n;
}

/* Credit is saved up for a tenth of a second and spent in pieces of a hundredth: what a pause left
 * unused is not made up for by a burst, and a slow rate does not become a call a byte. */
static inline double zs_rate_piece(const struct zs_transfer *t)
{
    double piece = t->rate / 100;
    return piece < 1 ? 1 : piece > ZS_CHUNK ? ZS_CHUNK : piece;
}

static inline int zs_may_take(struct zs_transfer *t)
{
    double most = 10 * zs_rate_piece(t), needed = zs_rate_piece(t);
    long long now = zs_clock(CLOCK_MONOTONIC);
    t->credit += (now - t->credited) * t->rate / ZS_SECOND;
    t->credit = t->credit < most ? t->credit : most;
    t->credited = now;
    return t->credit >= (needed < t->left ? needed : t->left);
}

/* ns until the rate allows the next piece. */
static inline long long zs_until_credit(const struct zs_transfer *t)
{
    return (long long)((zs_rate_piece(t) - t->credit) / t->rate * ZS_SECOND) + 1;
}

#endif
