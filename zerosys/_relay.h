/* Two transfers between the same two sockets, one each way, in one loop with one poll. */
#ifndef ZEROSYS_RELAY_H
#define ZEROSYS_RELAY_H

#include "_transfer_wait.h"

struct zs_relay {
    struct zs_transfer *way[2];
    int want[2];     /* what the last step of each way answered */
    int error[2];    /* why a way ended before its source did: -errno of its sink */
    int ready[2];    /* whether a step is worth while */
    long long stall, progressed;
    unsigned long long seen;
    int futile;
};

static inline void zs_relay_open(struct zs_relay *r, struct zs_transfer *forth, struct zs_transfer *back)
{
    memset(r, 0, sizeof *r);
    r->way[0] = forth;
    r->way[1] = back;
    for (int i = 0; i < 2; i++) {
        r->want[i] = ZS_WORKING;
        r->ready[i] = 1;
    }
    r->progressed = zs_clock(CLOCK_MONOTONIC);
}

/* One slice of one way. A source's end is passed on once all the bytes before it are: then only is
 * the transfer done. A sink that fails ends its way alone, for what comes the other way may still be
 * wanted. A source that fails, being reset, can take no more either: that ends the relay. */
static inline int zs_relay_step(struct zs_relay *r, int i, long long until)
{
    int rc = zs_transfer_step_until(r->way[i], until);
    if (rc < 0 && r->way[i]->side == ZS_SINK && !r->way[i]->would_copy) {
        r->error[i] = rc;
        shutdown(r->way[i]->src.fd, SHUT_RD);
        rc = ZS_DONE;
    } else if (rc == ZS_DONE)
        shutdown(r->way[i]->dst.fd, SHUT_WR); /* ENOTCONN: it is gone, and knows */
    r->want[i] = rc;
    r->ready[i] = rc == ZS_WORKING;
    return rc;
}

static inline unsigned long long zs_relay_progress(const struct zs_relay *r)
{
    return zs_progress(r->way[0]) + zs_progress(r->way[1]);
}

/* Sleep until a way can go on: 0, ZS_EXPIRED, ZS_STALLED, -EINTR or -EBADF. */
static inline int zs_relay_wait(struct zs_relay *r, long long deadline)
{
    struct pollfd watched[2];
    int way[2], n = 0, why, rc;
    unsigned long long progress = zs_relay_progress(r);
    if (progress != r->seen) {
        r->futile = 0;
        r->progressed = zs_clock(CLOCK_MONOTONIC);
    }
    r->seen = progress;
    for (int i = 0; i < 2; i++) {
        if (r->want[i] == ZS_DONE)
            continue;
        int source = r->want[i] == ZS_WANT_SOURCE;
        way[n] = i;
        watched[n].fd = source ? r->way[i]->src.fd : r->way[i]->dst.fd;
        watched[n].events = source ? POLLIN : POLLOUT;
        watched[n++].revents = 0;
    }
    long long most = zs_patience(r->stall, r->progressed, deadline, &why);
    if (most < 0)
        return why;
    rc = zs_sleep(watched, n, most);
    if (rc == 0)
        return why;
    if (rc > 0)
        zs_pause(++r->futile, most);
    for (int k = 0; rc > 0 && k < n; k++) {
        r->ready[way[k]] = watched[k].revents != 0;
        if (watched[k].revents && zs_still_same(r->way[way[k]], r->want[way[k]]) < 0)
            return -EBADF;
    }
    return rc < 0 ? rc : 0;
}

/* Step and sleep until both ways are done (ZS_DONE), or ZS_EXPIRED, ZS_STALLED, ZS_WORKING (time to
 * look at signals), or -errno: of the way whose want it is, -EINTR of none. */
static inline int zs_relay_drive(struct zs_relay *r, long long deadline)
{
    long long until = zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE;
    for (;;) {
        for (int i = 0; i < 2; i++) {
            /* A part of a slice: a way that never blocks must not keep the other waiting. */
            long long half = zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE / 10;
            if (r->want[i] != ZS_DONE && r->ready[i] && zs_relay_step(r, i, half) < 0)
                return r->want[i];
        }
        if (r->want[0] == ZS_DONE && r->want[1] == ZS_DONE)
            return ZS_DONE;
        if (deadline >= 0 && zs_clock(CLOCK_MONOTONIC) >= deadline)
            return ZS_EXPIRED;
        if (!r->ready[0] && !r->ready[1]) {
            int rc = zs_relay_wait(r, deadline);
            if (rc != 0)
                return rc;
        }
        if (zs_clock(CLOCK_MONOTONIC_COARSE) >= until)
            return ZS_WORKING;
    }
}

#endif
