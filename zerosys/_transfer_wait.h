/* A transfer in time: steps of a slice each, and sleeping for the side that blocks. */
#ifndef ZEROSYS_TRANSFER_WAIT_H
#define ZEROSYS_TRANSFER_WAIT_H

#include "_transfer.h"

#define ZS_SLICE 50000000LL     /* ns of one step */
#define ZS_PATIENCE 500000000LL /* ns of one sleep: a signal that just missed it waits no longer */

/* Try again for as long as a sleep and waking up would take, which a busy other end makes short work of. */
static inline int zs_transfer_spin(struct zs_transfer *t)
{
    long long until = zs_clock(CLOCK_MONOTONIC) + t->spin;
    int rc;
    t->spinning = 1;
    do
        rc = zs_transfer_once(t);
    while ((rc == ZS_WANT_SOURCE || rc == ZS_WANT_SINK) && zs_clock(CLOCK_MONOTONIC) < until);
    t->spinning = 0;
    return rc == ZS_WANT_SOURCE || rc == ZS_WANT_SINK ? zs_transfer_once(t) : rc;
}

/* ZS_DONE, what is waited for, ZS_WORKING when *until* (ns of CLOCK_MONOTONIC_COARSE) is past, or
 * -errno with t->side. */
static inline int zs_transfer_step_until(struct zs_transfer *t, long long until)
{
    int rc;
    t->side = ZS_NEITHER;
    do {
        rc = zs_transfer_once(t);
        if (t->spin && (rc == ZS_WANT_SOURCE || rc == ZS_WANT_SINK))
            rc = zs_transfer_spin(t);
    } while (rc == ZS_WORKING && zs_clock(CLOCK_MONOTONIC_COARSE) < until);
    return rc;
}

static inline int zs_transfer_step(struct zs_transfer *t)
{
    return zs_transfer_step_until(t, zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE);
}

static inline int zs_sleep(struct pollfd *watched, int n, long long ns)
{
    struct timespec time = {.tv_sec = ns / ZS_SECOND, .tv_nsec = ns % ZS_SECOND};
    return (int)zs_or_errno(ppoll(watched, n, &time, NULL));
}

/* After a sleep, in which another thread may have closed the descriptor and opened another file. */
static inline int zs_still_same(struct zs_transfer *t, int want)
{
    if (zs_end_is_same(want == ZS_WANT_SOURCE ? &t->src : &t->dst))
        return 0;
    t->reused = 1;
    return -EBADF;
}

/* ns that may be slept, and in *why* what it means when they are over; none left: -1. */
static inline long long zs_patience(long long stall, long long progressed, long long deadline, int *why)
{
    long long now = zs_clock(CLOCK_MONOTONIC), most = ZS_PATIENCE;
    *why = -EINTR;
    if (deadline >= 0 && deadline - now < most) {
        most = deadline - now;
        *why = ZS_EXPIRED;
    }
    if (stall >= 0 && progressed + stall - now < most) {
        most = progressed + stall - now;
        *why = ZS_STALLED;
    }
    return most > 0 ? most : -1;
}

/* Before the *futile*-th sleep in a row that brought nothing: poll calls ready what is not. After the
 * second such each costs a pause of a millisecond, doubled up to 64, for we must not spin. */
static inline int zs_pause(int futile, long long most)
{
    if (futile <= 2)
        return 1;
    long long pause = 1000000LL << (futile < 9 ? futile - 3 : 6);
    return zs_sleep(NULL, 0, pause < most ? pause : most);
}

/* Sleep until what a step wants can be had (0), or *deadline* has passed (in ns of
 * CLOCK_MONOTONIC, -1 is never; ZS_EXPIRED), or nothing moved for too long (ZS_STALLED), or a
 * signal may have come (-EINTR). */
static inline int zs_transfer_wait(struct zs_transfer *t, int want, long long deadline)
{
    struct pollfd one = {.fd = want == ZS_WANT_SOURCE ? t->src.fd : t->dst.fd,
                         .events = want == ZS_WANT_SOURCE ? POLLIN : POLLOUT};
    unsigned long long progress = zs_progress(t);
    long long most, pause;
    int why, rc;
    if (progress != t->seen || want == ZS_WANT_TIME) {
        t->futile = 0;
        t->progressed = zs_clock(CLOCK_MONOTONIC);
    }
    t->seen = progress;
    if ((most = zs_patience(t->stall, t->progressed, deadline, &why)) < 0)
        return why;
    if (want == ZS_WANT_TIME) {
        pause = zs_until_credit(t);
        rc = zs_sleep(NULL, 0, pause < most ? pause : most);
        return rc < 0 ? rc : 0;
    }
    rc = zs_sleep(&one, 1, most);
    if (rc == 0)
        return why;
    if (rc > 0)
        rc = zs_pause(++t->futile, most);
    return rc < 0 ? rc : zs_still_same(t, want);
}

/* Step and sleep until ZS_DONE, ZS_EXPIRED, ZS_STALLED, ZS_WORKING (time to look at signals: one
 * that comes between two sleeps interrupts neither) or -errno. */
static inline int zs_transfer_drive(struct zs_transfer *t, long long deadline)
{
    long long until = zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE;
    for (;;) {
        int rc = zs_transfer_step_until(t, until);
        if (rc == ZS_WORKING && deadline >= 0 && zs_clock(CLOCK_MONOTONIC) >= deadline)
            return ZS_EXPIRED;
        if (rc != ZS_WANT_SOURCE && rc != ZS_WANT_SINK && rc != ZS_WANT_TIME)
            return rc;
        if ((rc = zs_transfer_wait(t, rc, deadline)) != 0)
            return rc;
        if (zs_clock(CLOCK_MONOTONIC_COARSE) >= until)
            return ZS_WORKING;
    }
}

#endif
