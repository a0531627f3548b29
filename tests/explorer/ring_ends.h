/* What both ends of a small ring do, a step at a time, as ring.h's own calls do it without clocks and locks. */
#ifndef RING_ENDS_H
#define RING_ENDS_H

#include "ring_steps.h"

static struct zs_ring ring;
static struct zs_ring_writer writer; /* as prepare left them: each thread works on a copy */
static struct zs_ring_reader readers[SLOTS];

static inline void a_ring(uint64_t words, uint64_t limit, uint32_t on_full)
{
    ring = ring_of(words, limit, ZS_RING_STREAM, on_full);
    ex_check(zs_writer_begin(&writer, &ring) == 0, "the writer begins");
}

static inline void a_reader(uint32_t slot) { ex_check(zs_reader_join(&readers[slot], &ring, slot, 0) == 0, "a reader joins"); }

/* Item n is n + 1: 0 was never written. */
static inline uint64_t item(uint64_t count) { return count - FIRST + 1; }

static inline void commit(struct zs_ring_writer *w, uint64_t n)
{
    zs_writer_publish(w, n);
    uint64_t dozers = zs_writer_dozers(w);
    if (dozers)
        zs_writer_wake(w, dozers, 0);
}

static inline void write_items(struct zs_ring_writer *w, uint64_t until)
{
    while (w->head - FIRST < until) {
        int rc = zs_writer_room(w, 1);
        while (rc == 0)
            rc = zs_writer_doze(w, 1, 0);
        ex_check(rc == 1, "the writer finds sense in what readers say");
        ex_write(place_of(&ring, w->head), 8, item(w->head));
        commit(w, 1);
    }
}

static inline void release(struct zs_ring_reader *r, uint64_t n)
{
    r->next += n;
    zs_reader_release(r, r->next, n);
    if (zs_reader_awaited(r))
        zs_reader_wake(r);
}

static inline int wait_for(struct zs_ring_reader *r, uint64_t n)
{
    int rc = zs_reader_ready(r, n);
    while (rc == 0)
        rc = zs_reader_doze(r, n, 0);
    ex_check(rc == 1, "the reader finds sense in what the writer says");
    return rc;
}

static inline void look_at(struct zs_ring_reader *r)
{
    ex_check(ex_read(place_of(&ring, r->next), 8) == item(r->next), "an item is another");
}

static inline void read_items(struct zs_ring_reader *r, uint64_t until)
{
    while (r->next - FIRST < until) {
        wait_for(r, 1);
        look_at(r);
        release(r, 1);
    }
}

static inline void write_two(void)
{
    struct zs_ring_writer w = writer;
    write_items(&w, 2);
}

static inline void read_two(void)
{
    struct zs_ring_reader r = readers[0];
    read_items(&r, 2);
}

static uint32_t slot_lock; /* the kernel's byte lock: all of it is ordered */

static inline bool lock_slot(void)
{
    return ex_exchange(EX_SITE(SEQ_CST, kernel), &slot_lock, 4, 1) == 0;
}

static inline void unlock_slot(void) { ex_exchange(EX_SITE(SEQ_CST, kernel), &slot_lock, 4, 0); }

#endif
