/* One source to many sinks: each round shows the same pages to every sink's own pipe by tee, and then
 * drains the source once.
 *
 * A pipe counts slots, not bytes, so how much a tee will take is known only afterwards. Therefore
 * each sink notes how far it is ahead of the source, is given nothing more until the source has
 * caught up, and the source is drained by what the least of them has. So no sink gets a byte twice
 * or never, and none runs ahead by more than its pipe.
 *
 * Where slow sinks are skipped instead (drop), the source is drained by all it has. A sink that had
 * room for a part of a unit gets the rest of it by a copy, and takes part again where a unit begins
 * for which it has room: what it misses is whole units. */
#ifndef ZEROSYS_FANOUT_H
#define ZEROSYS_FANOUT_H

#include "_branch.h"

struct zs_fanout {
    struct zs_end src;
    int in[2];               /* where sinks tee from: the source, if it is a pipe, or a pipe of ours */
    size_t in_size;
    size_t staged;           /* bytes in our own */
    int null;                /* what is drained goes here */
    int reads;               /* the source cannot be spliced from: its bytes are copied into the pipe */
    unsigned char *buffer;   /* for that, and for the ends of units */
    int ended, drop, strict, would_copy;
    size_t unit, left;
    unsigned long long position; /* bytes drained from the source */
    struct zs_branch *branches;
    int n;
    struct pollfd *watched;  /* n + 1 */
    int wants_source;
    int error;               /* the source's */
    long long stall, progressed;
    long long linger;        /* ns: whoever is skipped when slow is not waited for at the end either; -1: it is */
    unsigned long long seen;
    int futile;
};

static inline int zs_own_stage(const struct zs_fanout *f) { return f->in[1] >= 0; }

static inline ssize_t zs_fanout_open(struct zs_fanout *f, size_t pipe_wish)
{
    ssize_t rc;
    f->null = (int)zs_or_errno(open("/dev/null", O_WRONLY | O_CLOEXEC));
    f->buffer = malloc(ZS_BUFFER_SIZE);
    f->watched = calloc(f->n + 1, sizeof *f->watched);
    if (f->null < 0 || !f->buffer || !f->watched)
        return f->null < 0 ? f->null : -ENOMEM;
    if (f->src.kind == ZS_PIPE)
        f->in[0] = f->src.fd;
    else {
        rc = zs_or_errno(pipe2(f->in, O_CLOEXEC | O_NONBLOCK));
        if (rc < 0) {
            f->in[0] = f->in[1] = -1;
            return rc;
        }
        rc = zs_wish_pipe_size(f->in[0], pipe_wish);
        if (rc < 0)
            return rc;
        f->in_size = rc;
    }
    for (int i = 0; i < f->n; i++)
        if ((rc = zs_branch_open(&f->branches[i], pipe_wish)) < 0)
            return rc;
    f->progressed = zs_clock(CLOCK_MONOTONIC);
    return 0;
}

static inline void zs_fanout_close(struct zs_fanout *f)
{
    for (int i = 0; i < f->n; i++)
        zs_branch_close(&f->branches[i]);
    if (zs_own_stage(f)) {
        close(f->in[0]);
        close(f->in[1]);
    }
    f->in[0] = f->in[1] = -1;
    if (f->null >= 0)
        close(f->null);
    f->null = -1;
    zs_end_close(&f->src);
    free(f->buffer);
    free(f->watched);
    f->buffer = NULL;
    f->watched = NULL;
}

static inline ssize_t zs_fanout_read(struct zs_fanout *f)
{
    size_t most = zs_least(zs_least(f->left, ZS_BUFFER_SIZE), f->in_size);
    ssize_t n = most;
    if (f->src.kind == ZS_MEMORY) {
        n = zs_or_errno(write(f->in[1], f->src.at, most));
        f->src.at += n > 0 ? n : 0;
        return n;
    }
    n = zs_take(&f->src, f->buffer, most);
    /* Our pipe is empty, and as large as what was asked for: it takes all. */
    return n <= 0 ? n : zs_or_errno(write(f->in[1], f->buffer, n));
}

/* Source to our own empty pipe: 1, or 0 with wants_source, ended or error told. */
static inline int zs_fanout_fill(struct zs_fanout *f)
{
    ssize_t n = -EAGAIN;
    if (f->reads)
        n = zs_fanout_read(f);
    else if (!zs_would_sleep(&f->src, POLLIN))
        n = zs_splice(f->src.fd, zs_end_offset(&f->src), f->in[1], NULL, zs_least(f->left, f->in_size),
                      SPLICE_F_NONBLOCK);
    if (!f->reads && (n == -EINVAL || n == -ENOSYS || n == -EOPNOTSUPP) && !f->position) {
        f->would_copy |= f->strict;
        f->reads = 1;
        return !f->strict;
    }
    f->staged += n > 0 ? n : 0;
    f->ended |= n == 0;
    f->wants_source = n == -EAGAIN;
    f->error = n < 0 && n != -EAGAIN ? (int)n : 0;
    return n > 0;
}

/* Bytes that can be shown to the sinks now. */
static inline size_t zs_fanout_available(struct zs_fanout *f)
{
    if (zs_own_stage(f)) {
        while (!f->staged && !f->ended && !f->error && f->left && zs_fanout_fill(f))
            ;
        return f->staged;
    }
    ssize_t n = zs_readable_bytes(f->src.fd);
    if (n == 0) {
        struct pollfd one = {.fd = f->src.fd, .events = POLLIN};
        poll(&one, 1, 0);
        f->ended = (one.revents & (POLLHUP | POLLIN)) == POLLHUP;
        f->wants_source = !f->ended;
    }
    f->error = n < 0 ? (int)n : 0;
    return n > 0 ? n : 0;
}

static inline int zs_fanout_discard(struct zs_fanout *f, size_t n)
{
    while (n) {
        ssize_t rc = zs_splice(f->in[0], NULL, f->null, NULL, n, SPLICE_F_NONBLOCK);
        if (rc <= 0)
            return rc ? (int)rc : -EIO;
        n -= rc;
    }
    return 0;
}

/* Read *n* bytes of the source, fewer than a unit, that end at *at*, for the sinks which owe them. */
static inline int zs_fanout_share(struct zs_fanout *f, size_t at, size_t n)
{
    for (size_t done = 0, got; done < n; done += got) {
        ssize_t rc = zs_or_errno(read(f->in[0], f->buffer, zs_least(n - done, ZS_BUFFER_SIZE)));
        if (rc <= 0)
            return rc ? (int)rc : -EIO;
        got = rc;
        for (int i = 0; i < f->n; i++) {
            struct zs_branch *b = &f->branches[i];
            size_t left = n - done; /* bytes up to *at* */
            if (b->error || !b->owed || b->ahead >= at - left + got)
                continue;
            size_t skip = b->ahead - (at - left);
            size_t part = zs_least(got - skip, b->owed);
            memcpy(b->rest + b->rest_end, f->buffer + skip, part);
            b->rest_end += part;
            b->owed -= part;
            b->ahead += part;
        }
    }
    return 0;
}

/* Drain *n* bytes that every living sink has, or owes, or misses. In a dropping round *ahead* is how
 * much of this round a sink was given; what it owes follows that, up to where its unit ends. */
static inline int zs_fanout_drain(struct zs_fanout *f, size_t n)
{
    size_t at = 0;
    int rc = 0;
    while (f->drop && rc == 0) {
        size_t from = n, end = n;
        for (int i = 0; i < f->n; i++) {
            struct zs_branch *b = &f->branches[i];
            if (b->error || !b->owed || b->ahead >= n)
                continue;
            from = zs_least(from, b->ahead);
        }
        if (from >= n)
            break;
        /* Up to where that unit ends: all who owe a part of it get theirs from one read. */
        size_t into = (f->position + from) % f->unit;
        end = zs_least(n, from + f->unit - into);
        rc = zs_fanout_discard(f, from - at);
        if (rc == 0)
            rc = zs_fanout_share(f, end, end - from);
        at = end;
    }
    if (rc == 0)
        rc = zs_fanout_discard(f, n - at);
    if (rc < 0)
        return rc;
    f->position += n;
    f->left -= n;
    f->staged -= zs_own_stage(f) ? n : 0;
    return 0;
}

/* Show a sink up to *n* bytes; how many its pipe took. */
static inline size_t zs_fanout_tee(struct zs_fanout *f, struct zs_branch *b, size_t n)
{
    ssize_t got = zs_tee(f->in[0], b->pipe[1], n, SPLICE_F_NONBLOCK);
    if (got < 0 && got != -EAGAIN)
        b->error = (int)-got;
    got = got > 0 ? got : 0;
    b->held += got;
    return got;
}

/* A round in which every sink gets every byte; how many the source was drained by, or -errno. */
static inline ssize_t zs_fanout_round(struct zs_fanout *f, size_t n)
{
    size_t least = n;
    for (int i = 0; i < f->n; i++) {
        struct zs_branch *b = &f->branches[i];
        if (!b->error && b->ahead == 0 && b->rest_at == b->rest_end)
            b->ahead = zs_fanout_tee(f, b, n);
        if (!b->error)
            least = zs_least(least, b->ahead);
    }
    int rc = least ? zs_fanout_drain(f, least) : 0;
    for (int i = 0; i < f->n && rc == 0; i++)
        if (!f->branches[i].error)
            f->branches[i].ahead -= least;
    return rc < 0 ? rc : (ssize_t)least;
}

/* What a sink takes of a dropping round of *n* bytes. */
static inline ssize_t zs_fanout_offer(struct zs_fanout *f, struct zs_branch *b, size_t n)
{
    b->ahead = 0;
    if (b->owed || zs_branch_settle(b) < 0)
        return 0; /* the end of its last unit comes first */
    if (b->skipping && f->position % f->unit)
        return 0;
    b->ahead = zs_fanout_tee(f, b, n);
    if (b->ahead == n || b->error) {
        b->skipping = 0;
        return 0;
    }
    b->skipping = 1;
    size_t into = (f->position + b->ahead) % f->unit;
    b->owed = into ? f->unit - into : 0;
    if (b->owed && !b->rest && !(b->rest = malloc(f->unit)))
        return -ENOMEM;
    return 0;
}

/* A round that waits for nobody. */
static inline ssize_t zs_fanout_dropping_round(struct zs_fanout *f, size_t n)
{
    size_t into = f->position % f->unit;
    ssize_t rc = 0;
    for (int i = 0; i < f->n; i++)
        if (f->branches[i].skipping && into) /* it may join where the next unit begins */
            n = zs_least(n, f->unit - into);
    for (int i = 0; i < f->n && rc == 0; i++)
        if (!f->branches[i].error)
            rc = zs_fanout_offer(f, &f->branches[i], n);
    if (rc == 0)
        rc = zs_fanout_drain(f, n);
    for (int i = 0; i < f->n && rc == 0; i++) {
        struct zs_branch *b = &f->branches[i];
        if (b->error)
            continue;
        b->dropped += n - b->ahead;
        b->ahead = 0;
    }
    return rc < 0 ? rc : (ssize_t)n;
}

/* Read *n* bytes of the source that some sinks have, to be due to those which have them not; there
 * is room for them in the others' rest. */
static inline int zs_fanout_read_for_all(struct zs_fanout *f, unsigned char *bytes, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t rc = zs_or_errno(read(f->in[0], bytes + got, n - got));
        if (rc <= 0)
            return rc ? (int)rc : -EIO;
        got += rc;
    }
    for (int i = 0; i < f->n; i++) {
        struct zs_branch *b = &f->branches[i];
        size_t has = zs_least(b->ahead, n);
        b->ahead -= has;
        if (b->error || has == n)
            continue;
        memcpy(b->rest, bytes + has, n - has);
        b->rest_at = 0;
        b->rest_end = n - has;
    }
    f->position += n;
    f->left -= n;
    f->staged -= zs_own_stage(f) ? n : 0;
    return 0;
}

/* After a stop: drain the source by what the sink that is farthest ahead has of it, so that all go on
 * from one place. What the others have not of that is due to them. -errno with nothing read. */
static inline int zs_fanout_catch_up(struct zs_fanout *f)
{
    size_t n = 0;
    for (int i = 0; i < f->n && !f->drop; i++)
        if (!f->branches[i].error && zs_branch_beyond(&f->branches[i]) > n)
            n = zs_branch_beyond(&f->branches[i]);
    ssize_t there = n ? zs_readable_bytes(f->in[0]) : 0;
    if (n == 0 || there < (ssize_t)n) /* somebody else has read it */
        return there < 0 ? (int)there : 0;
    for (int i = 0; i < f->n; i++) {
        struct zs_branch *b = &f->branches[i];
        if (b->rest_at < b->rest_end)
            return 0; /* from the last time */
        unsigned char *room = realloc(b->rest, n);
        if (!room)
            return -ENOMEM;
        b->rest = room;
    }
    unsigned char *bytes = malloc(n);
    if (!bytes)
        return -ENOMEM;
    int rc = zs_fanout_read_for_all(f, bytes, n);
    free(bytes);
    return rc;
}

static inline unsigned long long zs_fanout_progress(const struct zs_fanout *f)
{
    unsigned long long sum = f->position;
    for (int i = 0; i < f->n; i++)
        sum += f->branches[i].moved + f->branches[i].copied + f->branches[i].buffered;
    return sum;
}

/* Whether a round has given a sink bytes that were not tried yet. */
static inline int zs_fanout_has_fresh(const struct zs_fanout *f)
{
    for (int i = 0; i < f->n; i++)
        if (!f->branches[i].error && !f->branches[i].blocked && f->branches[i].held)
            return 1;
    return 0;
}

/* One turn: every sink a call, and a round. ZS_WORKING, ZS_DONE, ZS_WANT_SINK (poll them all, and the
 * source if it is wanted), or -errno: the source's, or the last sink's when all are dead. */
static inline int zs_fanout_once(struct zs_fanout *f)
{
    int lingers = f->drop && f->linger >= 0 && (f->ended || !f->left);
    int busy = 0, alive = 0, last = 0;
    unsigned long long before = zs_fanout_progress(f);
    for (int i = 0; i < f->n; i++) {
        struct zs_branch *b = &f->branches[i];
        b->blocked = 0;
        if (f->ended || !f->left)
            b->owed = 0; /* its unit ends with the source */
        if (!b->error && !b->owed)
            zs_branch_settle(b);
        if (!b->error && (b->held || b->buffered))
            zs_branch_carry(b, f->strict, &f->would_copy);
        if (lingers && !b->error && !zs_branch_is_empty(b))
            zs_branch_linger(b, f->linger);
        if (b->error)
            last = -b->error;
        alive += !b->error;
        busy |= !b->error && !zs_branch_is_empty(b);
    }
    if (f->would_copy)
        return -EOPNOTSUPP;
    if (!alive)
        return last;
    f->wants_source = 0;
    size_t n = f->left && !f->ended ? zs_least(zs_fanout_available(f), f->left) : 0;
    if (!n && zs_own_stage(f))
        n = f->staged;
    if (f->would_copy)
        return -EOPNOTSUPP;
    if (f->error)
        return f->error;
    if (n) {
        ssize_t rc = f->drop ? zs_fanout_dropping_round(f, n) : zs_fanout_round(f, n);
        if (rc < 0)
            return (int)rc;
        busy = 1;
    }
    if (!busy && !f->wants_source && (f->ended || !f->left))
        return ZS_DONE;
    return zs_fanout_progress(f) != before || zs_fanout_has_fresh(f) ? ZS_WORKING : ZS_WANT_SINK;
}

/* Turns without a sleep until *until*, or there is nothing to do but to wait. */
static inline int zs_fanout_turns(struct zs_fanout *f, long long until)
{
    int rc;
    do
        rc = zs_fanout_once(f);
    while (rc == ZS_WORKING && zs_clock(CLOCK_MONOTONIC) < until);
    return rc;
}

/* ns until the first sink is given up, or -1 if none will be. */
static inline long long zs_fanout_lingers(const struct zs_fanout *f)
{
    long long first = -1, now = zs_clock(CLOCK_MONOTONIC);
    for (int i = 0; i < f->n; i++) {
        const struct zs_branch *b = &f->branches[i];
        if (b->error || !b->took_at || zs_branch_is_empty(b))
            continue;
        long long left = b->took_at + f->linger - now;
        left = left > 0 ? left : 0;
        first = first < 0 || left < first ? left : first;
    }
    return first;
}

/* Sleep until a sink that has something due can take it, or the source, where it is wanted, has more. */
static inline int zs_fanout_wait(struct zs_fanout *f, long long deadline)
{
    int n = 0, why, rc;
    unsigned long long progress = zs_fanout_progress(f);
    if (progress != f->seen) {
        f->futile = 0;
        f->progressed = zs_clock(CLOCK_MONOTONIC);
    }
    f->seen = progress;
    for (int i = 0; i < f->n; i++)
        if (!f->branches[i].error && f->branches[i].blocked)
            f->watched[n++] = (struct pollfd){.fd = f->branches[i].dst.fd, .events = POLLOUT};
    if (f->wants_source)
        f->watched[n++] = (struct pollfd){.fd = f->src.fd, .events = POLLIN};
    long long most = zs_patience(f->stall, f->progressed, deadline, &why);
    if (most < 0)
        return why;
    long long lingers = zs_fanout_lingers(f);
    if (lingers >= 0 && lingers < most) {
        most = lingers + 1;
        why = 0;
    }
    rc = zs_sleep(f->watched, n, most);
    if (rc == 0)
        return why;
    if (rc > 0)
        rc = zs_pause(++f->futile, most);
    return rc < 0 ? rc : 0;
}

static inline int zs_fanout_drive(struct zs_fanout *f, long long deadline)
{
    long long until = zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE;
    for (;;) {
        int rc = zs_fanout_once(f);
        if (rc == ZS_WANT_SINK)
            rc = zs_fanout_wait(f, deadline);
        else if (rc != ZS_WORKING)
            return rc;
        if (rc != 0 && rc != ZS_WORKING)
            return rc;
        if (deadline >= 0 && zs_clock(CLOCK_MONOTONIC) >= deadline)
            return ZS_EXPIRED;
        if (zs_clock(CLOCK_MONOTONIC_COARSE) >= until)
            return ZS_WORKING;
    }
}

#endif
