/* How a ring's ends sleep and wake each other: spin, then a futex that processes share.
 *
 * A sleeper says so, then looks once more; a waker acts, then looks for sleepers. Each has a full
 * fence in between, so one of the two sees the other. Sleeps are slices: whoever waits looks
 * at signals and at its peer's life between two. */
#ifndef ZEROSYS_RING_WAIT_H
#define ZEROSYS_RING_WAIT_H

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring_protocol.h"

#ifndef ZS_RING_SLEEP
#define ZS_RING_SLEEP(word, ns) zs_ring_futex_wait(word, ns)
#define ZS_RING_WAKE(word) zs_ring_futex_wake(word)
#endif

static inline int64_t zs_ring_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void zs_ring_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

/* Sleep while *word is 1, ns at most: 0, or -errno (EAGAIN, ETIMEDOUT, EINTR). */
static inline int zs_ring_futex_wait(uint32_t *word, int64_t ns)
{
    struct timespec span = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return syscall(SYS_futex, word, FUTEX_WAIT, 1, &span, NULL, 0) < 0 ? -errno : 0;
}

static inline void zs_ring_futex_wake(uint32_t *word)
{
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    errno = before;
}

/* -- waking ------------------------------------------------------------------------------------ */

static inline void zs_ring_wake_slot(const struct zs_ring *ring, uint32_t i)
{
    ZS_RING_AND(&ring->control->dozers, ~(1ULL << i), RELAXED, wake);
    if (ZS_RING_SWAP(&ring->slots[i].doze, 0, RELAXED, wake))
        ZS_RING_WAKE(&ring->slots[i].doze);
}

/* Wake those of the dozers who have what they want, or all at the end of the stream. */
static inline void zs_writer_wake(struct zs_ring_writer *w, uint64_t dozers, int all)
{
    for (uint32_t i = 0; i < w->ring.count && dozers >> i; i++)
        if (dozers >> i & 1 &&
            (all || !zs_ring_after(ZS_RING_LOAD(&w->ring.slots[i].want, RELAXED, wake), w->head)))
            zs_ring_wake_slot(&w->ring, i);
}

static inline void zs_ring_wake_writer(const struct zs_ring *ring)
{
    if (ZS_RING_SWAP(&ring->control->doze, 0, RELAXED, room))
        ZS_RING_WAKE(&ring->control->doze);
}

/* Wake the writer if this reader is no longer what it waits for. */
static inline void zs_reader_wake(struct zs_ring_reader *r)
{
    if (!zs_ring_after(ZS_RING_LOAD(&r->ring.control->want, RELAXED, room), r->tail))
        zs_ring_wake_writer(&r->ring);
}

/* -- sleeping ------------------------------------------------------------------------------------ */

/* Whether n counts wait to be read, or all that will ever come: 1, 0, or -EPROTO. */
static inline int zs_reader_ready(struct zs_ring_reader *r, uint64_t n)
{
    int rc = zs_reader_observe(r);
    if (rc < 0 || r->head - r->next >= n)
        return rc < 0 ? rc : 1;
    if (!zs_reader_ended(r))
        return 0;
    rc = zs_reader_observe(r);
    return rc < 0 ? rc : 1;
}

/* Sleep until n counts wait, ns at most. Returns as zs_reader_ready(), or -EINTR. */
static inline int zs_reader_doze(struct zs_ring_reader *r, uint64_t n, int64_t ns)
{
    struct zs_ring_control *control = r->ring.control;
    int rc, slept = 0;
    ZS_RING_STORE(&r->slot->want, r->next + n, RELAXED, wake);
    ZS_RING_STORE(&r->slot->doze, 1, RELAXED, wake);
    ZS_RING_OR(&control->dozers, r->bit, RELAXED, wake);
    ZS_RING_FENCE(SEQ_CST, wake);
    rc = zs_reader_ready(r, n);
    if (rc == 0) {
        slept = ZS_RING_SLEEP(&r->slot->doze, ns);
        rc = zs_reader_ready(r, n);
    }
    ZS_RING_STORE(&r->slot->doze, 0, RELAXED, wake);
    ZS_RING_AND(&control->dozers, ~r->bit, RELAXED, wake);
    return rc == 0 && slept == -EINTR ? -EINTR : rc;
}

/* The same for the writer and n counts of room. */
static inline int zs_writer_doze(struct zs_ring_writer *w, uint64_t n, int64_t ns)
{
    struct zs_ring_control *control = w->ring.control;
    int rc, slept = 0;
    ZS_RING_STORE(&control->want, w->head + n - w->ring.limit, RELAXED, room);
    ZS_RING_STORE(&control->doze, 1, RELAXED, room);
    ZS_RING_FENCE(SEQ_CST, room);
    rc = zs_writer_room(w, n);
    if (rc == 0) {
        slept = ZS_RING_SLEEP(&control->doze, ns);
        rc = zs_writer_room(w, n);
    }
    ZS_RING_STORE(&control->doze, 0, RELAXED, room);
    return rc == 0 && slept == -EINTR ? -EINTR : rc;
}

/* Look for ns before sleeping: a message that comes meanwhile costs no system call at either end. */
static inline int zs_reader_spin(struct zs_ring_reader *r, uint64_t n, int64_t ns)
{
    int64_t end = zs_ring_clock() + ns;
    int rc;
    do {
        for (int i = 0; i < 32; i++) {
            if ((rc = zs_reader_ready(r, n)) != 0)
                return rc;
            zs_ring_pause();
        }
    } while (zs_ring_clock() < end);
    return 0;
}

static inline int zs_writer_spin(struct zs_ring_writer *w, uint64_t n, int64_t ns)
{
    int64_t end = zs_ring_clock() + ns;
    int rc;
    do {
        for (int i = 0; i < 32; i++) {
            if ((rc = zs_writer_room(w, n)) != 0)
                return rc;
            zs_ring_pause();
        }
    } while (zs_ring_clock() < end);
    return 0;
}

#endif
