/* vmsplice in a loop: buffers lent to a pipe in turn. */
#ifndef ZEROSYS_LEND_H
#define ZEROSYS_LEND_H

#include "_transfer_wait.h"

struct zs_lending {
    int pipe;
    const struct iovec *buffers;
    int n;
    int turn;        /* whose turn it is */
    size_t at;       /* and from which byte of it */
    size_t left;     /* bytes still to be lent */
    unsigned long long lent;
    long long spin;  /* ns to try again before a sleep */
};

/* One call: what vmsplice answered. */
static inline ssize_t zs_lend_once(struct zs_lending *l)
{
    const struct iovec *buffer = &l->buffers[l->turn];
    struct iovec part = {.iov_base = (char *)buffer->iov_base + l->at,
                         .iov_len = zs_least(buffer->iov_len - l->at, l->left)};
    ssize_t n = zs_vmsplice(l->pipe, &part, 1, SPLICE_F_NONBLOCK);
    if (n <= 0)
        return n;
    l->lent += n;
    l->left -= n;
    l->at += n;
    if (l->at == buffer->iov_len) {
        l->at = 0;
        l->turn = (l->turn + 1) % l->n;
    }
    return n;
}

/* Lend until all is lent (ZS_DONE), *deadline* (ZS_EXPIRED), ZS_WORKING (time to look at signals) or
 * -errno. */
static inline int zs_lend_drive(struct zs_lending *l, long long deadline)
{
    long long until = zs_clock(CLOCK_MONOTONIC_COARSE) + ZS_SLICE, tried = 0;
    while (l->left) {
        ssize_t n = zs_lend_once(l);
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        if (n > 0)
            tried = 0;
        else if (l->spin && (!tried || zs_clock(CLOCK_MONOTONIC) < tried))
            tried = tried ? tried : zs_clock(CLOCK_MONOTONIC) + l->spin;
        else {
            struct pollfd one = {.fd = l->pipe, .events = POLLOUT};
            long long most;
            int why, rc;
            if ((most = zs_patience(-1, 0, deadline, &why)) < 0)
                return why;
            rc = zs_sleep(&one, 1, most);
            if (rc <= 0)
                return rc ? rc : why;
        }
        if (zs_clock(CLOCK_MONOTONIC_COARSE) >= until)
            return deadline >= 0 && zs_clock(CLOCK_MONOTONIC) >= deadline ? ZS_EXPIRED : ZS_WORKING;
    }
    return ZS_DONE;
}

#endif
