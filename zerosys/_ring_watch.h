/* A thread that waits on the ring's futex for a reader, and makes an eventfd readable: for select(),
 * poll() and event loops, which cannot wait on a futex. */
#ifndef ZEROSYS_RING_WATCH_H
#define ZEROSYS_RING_WATCH_H

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "ring.h"

struct zs_watch {
    struct zs_ring_reader *r; /* whose `next` its own thread moves */
    int fd;                   /* a descriptor of the control file, to ask whether the writer lives */
    int event;                /* -1 where there is no thread */
    uint32_t armed;           /* 1: look for data; 0: what was found is not read yet. A futex word */
    uint32_t stop;
    pthread_t thread;
};

static inline void zs_watch_futex(uint32_t *word, int call, uint32_t value)
{
    struct timespec span = {1, 0};
    syscall(SYS_futex, word, call | FUTEX_PRIVATE_FLAG, value, call == FUTEX_WAIT ? &span : NULL, NULL, 0);
}

/* Whether the reader should look: something is published, or the stream ended, or it never will. */
static inline int zs_watch_ready(struct zs_watch *w)
{
    struct zs_ring_control *control = w->r->ring.control;
    return ZS_RING_LOAD(&control->head, ACQUIRE, data) != ZS_RING_LOAD(&w->r->next, RELAXED, none) ||
           zs_reader_ended(w->r) || ZS_RING_LOAD(&w->stop, ACQUIRE, none);
}

/* One slice of sleep, which the reader's own waits may end early. */
static inline int zs_watch_doze(struct zs_watch *w)
{
    struct zs_ring_slot *slot = w->r->slot;
    ZS_RING_STORE(&slot->want, ZS_RING_LOAD(&w->r->next, RELAXED, none) + 1, RELAXED, wake);
    ZS_RING_STORE(&slot->doze, 1, RELAXED, wake);
    ZS_RING_OR(&w->r->ring.control->dozers, w->r->bit, RELEASE, wake);
    ZS_RING_FENCE(SEQ_CST, wake);
    if (!zs_watch_ready(w))
        ZS_RING_SLEEP(&slot->doze, ZS_RING_SLICE);
    return zs_watch_ready(w);
}

static inline void *zs_watch_run(void *argument)
{
    struct zs_watch *w = (struct zs_watch *)argument;
    const uint64_t one = 1;
    while (!ZS_RING_LOAD(&w->stop, ACQUIRE, none)) {
        if (!ZS_RING_LOAD(&w->armed, ACQUIRE, none)) {
            zs_watch_futex(&w->armed, FUTEX_WAIT, 0);
            continue;
        }
        if (zs_watch_ready(w) || zs_watch_doze(w) || zs_reader_orphaned(w->r, w->fd)) {
            ZS_RING_STORE(&w->armed, 0, RELEASE, none);
            (void)!write(w->event, &one, sizeof one);
        }
    }
    return NULL;
}

/* Have the thread look again; what it said before is taken back. */
static inline void zs_watch_arm(struct zs_watch *w)
{
    uint64_t count;
    (void)!read(w->event, &count, sizeof count);
    ZS_RING_STORE(&w->armed, 1, RELEASE, none);
    zs_watch_futex(&w->armed, FUTEX_WAKE, 1);
    ZS_RING_WAKE(&w->r->slot->doze); /* the reader's own wait may have taken its bit */
}

static inline int zs_watch_start(struct zs_watch *w)
{
    sigset_t all, before;
    pthread_attr_t small;
    int rc;
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->event < 0)
        return -errno;
    w->armed = 1;
    w->stop = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread inherits the mask */
    rc = -pthread_create(&w->thread, &small, zs_watch_run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    if (rc < 0) {
        close(w->event);
        w->event = -1;
    }
    return rc;
}

static inline void zs_watch_stop(struct zs_watch *w)
{
    if (w->event < 0)
        return;
    ZS_RING_STORE(&w->stop, 1, RELEASE, none);
    zs_watch_futex(&w->armed, FUTEX_WAKE, 1);
    ZS_RING_STORE(&w->r->slot->doze, 0, SEQ_CST, wake);
    ZS_RING_WAKE(&w->r->slot->doze);
    pthread_join(w->thread, NULL);
    close(w->event);
    w->event = -1;
}

#endif
