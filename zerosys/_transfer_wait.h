/* A transfer in time: steps of a slice each, and sleeping for the side that blocks. */
#ifndef ZEROSYS_TRANSFER_WAIT_H
#define ZEROSYS_TRANSFER_WAIT_H

#include <time.h>

#include "_transfer.h"

#define ZS_SLICE 50000000LL     /* ns of one step */
#define ZS_PATIENCE 500000000LL /* ns of one sleep: a signal that just missed it waits no longer */

static inline long long zs_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
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
    /* Both hops count: into the stage, and out of it. */
    unsigned long long progress = 2 * zs_delivered(t) + t->stranded;
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
