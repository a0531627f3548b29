/* The steps by which a ring's writer and readers agree, each over the atomics named below.
 *
 * Writer: room (reclaim), publish, overwrite, close, evict. Reader: join, observe, release, leave.
 * A step makes no system call and never waits; ring_wait.h sleeps, ring_peer.h knows who lives.
 *
 * Each ordering has a name, and stands at both of its ends:
 *   SYNC data   publish: store-release head          | observe: load-acquire head
 *   SYNC space  release: store-release tail          | reclaim: load-acquire tail
 *   SYNC slot   leave: store-release state; join: fence, then state | reclaim: load-acquire state, then tail
 *   SYNC join   reclaim: floor, fence, slots         | join: slot, fence, floor, head    (seq_cst)
 *   SYNC bound  lap: store-release floor             | join, catch up: load-acquire floor, then a head not below it
 *   SYNC lap    overwrite: floor, fence, data        | intact: data, fence, floor
 *   SYNC end    close: store-release closed          | ended: load-acquire closed, then head
 *   SYNC wake   publish: head, fence, dozers         | doze: dozers, fence, head         (seq_cst)
 *   SYNC room   release: tail, fence, doze           | doze: doze, fence, tails          (seq_cst)
 * What has no order of its own has it from a fence beside it, or from the kernel's byte lock between two
 * owners of one place. tests/explorer/ takes out each of these in turn, and finds what breaks. */
#ifndef ZEROSYS_RING_PROTOCOL_H
#define ZEROSYS_RING_PROTOCOL_H

#include <errno.h>
#include <string.h>

#include "ring_layout.h"

/* The atomics: C11's by the compiler's own names, which C++ has too. Whoever models the protocol
 * defines these first; `sync` is the name of the ordering, `order` one of C11's in capitals. */
#ifndef ZS_RING_LOAD
#define ZS_RING_LOAD(at, order, sync) __atomic_load_n(at, __ATOMIC_##order)
#define ZS_RING_STORE(at, value, order, sync) __atomic_store_n(at, value, __ATOMIC_##order)
#define ZS_RING_FENCE(order, sync) __atomic_thread_fence(__ATOMIC_##order)
#define ZS_RING_OR(at, bits, order, sync) __atomic_fetch_or(at, bits, __ATOMIC_##order)
#define ZS_RING_AND(at, bits, order, sync) __atomic_fetch_and(at, bits, __ATOMIC_##order)
#define ZS_RING_SWAP(at, value, order, sync) __atomic_exchange_n(at, value, __ATOMIC_##order)
#define ZS_RING_CAS(at, before, value, order, sync) \
    __atomic_compare_exchange_n(at, before, value, 0, __ATOMIC_##order, __ATOMIC_ACQUIRE)
#endif

/* Further than any joiner moves up before it calls the floor a stranger's. */
#define ZS_RING_PATIENCE 100000

/* One process's view of a ring: checked once, and never read again from the shared header. */
struct zs_ring {
    struct zs_ring_control *control;
    struct zs_ring_slot *slots;
    unsigned char *data;
    uint64_t size, mask, limit, item_size, start;
    uint32_t count; /* of slots */
    uint32_t kind, on_full, on_dead;
};

struct zs_ring_writer {
    struct zs_ring ring;
    uint64_t head;     /* published */
    uint64_t floor;    /* our own store of it */
    uint64_t sequence; /* of the next message */
};

struct zs_ring_reader {
    struct zs_ring ring;
    struct zs_ring_slot *slot;
    uint64_t bit;      /* in dozers */
    uint64_t tail;     /* released */
    uint64_t next;     /* first that was not handed out; tail <= next <= head */
    uint64_t head;     /* as last observed */
    uint64_t sequence; /* of the next message, once known */
    uint64_t taken, lost, high_water;
    int known;         /* whether sequence is */
};

/* Counters for people, from any process. */
static inline uint64_t zs_ring_read_u64(const uint64_t *at) { return ZS_RING_LOAD(at, RELAXED, none); }
static inline uint32_t zs_ring_read_u32(const uint32_t *at) { return ZS_RING_LOAD(at, RELAXED, none); }

/* By the only one who writes it. */
static inline void zs_ring_add_u64(uint64_t *at, uint64_t n)
{
    ZS_RING_STORE(at, ZS_RING_LOAD(at, RELAXED, none) + n, RELAXED, none);
}

/* Whether count a lies after b, of two that are less than half of all counts apart. */
static inline int zs_ring_after(uint64_t a, uint64_t b) { return (int64_t)(a - b) > 0; }

static inline unsigned char *zs_ring_at(const struct zs_ring *ring, uint64_t count)
{
    return ring->data + ((count * ring->item_size) & ring->mask);
}

/* Whether a count that came from shared memory can be one: records begin at multiples of their header. */
static inline int zs_ring_possible(const struct zs_ring *ring, uint64_t count)
{
    return ring->kind != ZS_RING_MESSAGES || count % sizeof(struct zs_ring_record) == 0;
}

/* -- the writer's room --------------------------------------------------------------------- */

/* How far behind head the writer has to keep its hands off: the farthest of the readers, or where
 * there are none, what none has released yet. -EPROTO for a tail that no honest reader has.
 * Where dead readers are evicted and one was, no reader means that nothing is kept. */
static inline int zs_ring_held(const struct zs_ring *ring, uint64_t head, uint64_t floor, uint64_t *held)
{
    uint64_t all = head - floor, unread = all, most = 0;
    int readers = 0;
    for (uint32_t i = 0; i < ring->count; i++) {
        struct zs_ring_slot *slot = &ring->slots[i];
        uint32_t state = ZS_RING_LOAD(&slot->state, ACQUIRE, slot);
        uint64_t behind = head - ZS_RING_LOAD(&slot->tail, ACQUIRE, space);
        if (state == ZS_RING_FREE) {
            if (behind < unread)
                unread = behind;
        } else if (behind <= all) {
            readers = 1;
            if (behind > most)
                most = behind;
        } else if (state != ZS_RING_JOINING) /* who joins below the floor will see it, and move up */
            return -EPROTO;
    }
    if (!readers && ring->on_dead == ZS_RING_DEAD_EVICT && ZS_RING_LOAD(&ring->control->evicted, RELAXED, none))
        unread = 0; /* whoever died shall not stop the stream */
    *held = readers ? most : unread;
    return 0;
}

/* Take what the readers have released. A joiner sees the new floor, or is seen here. */
static inline int zs_writer_reclaim(struct zs_ring_writer *w)
{
    struct zs_ring_control *control = w->ring.control;
    uint64_t held, again;
    int rc = zs_ring_held(&w->ring, w->head, w->floor, &held);
    if (rc < 0)
        return rc;
    if (held > ZS_RING_LOAD(&control->high_water, RELAXED, none))
        ZS_RING_STORE(&control->high_water, held, RELAXED, none);
    if (held == w->head - w->floor)
        return 0;
    ZS_RING_STORE(&control->floor, w->head - held, RELAXED, join);
    ZS_RING_FENCE(SEQ_CST, join);
    rc = zs_ring_held(&w->ring, w->head, w->floor, &again);
    if (rc < 0)
        return rc;
    if (again > held) {
        held = again;
        ZS_RING_STORE(&control->floor, w->head - held, RELAXED, join);
    }
    w->floor = w->head - held;
    return 0;
}

/* Whether n more counts fit, which a reader may have made true: 1, 0, or -EPROTO. */
static inline int zs_writer_room(struct zs_ring_writer *w, uint64_t n)
{
    if (n <= w->ring.limit - (w->head - w->floor))
        return 1;
    int rc = zs_writer_reclaim(w);
    return rc < 0 ? rc : n <= w->ring.limit - (w->head - w->floor);
}

/* -- overwriting: readers never hold the writer up -------------------------------------------- */

/* Say that everything below floor is about to be overwritten, before any of it is. */
static inline void zs_writer_lap(struct zs_ring_writer *w, uint64_t floor)
{
    w->floor = floor;
    ZS_RING_STORE(&w->ring.control->floor, floor, RELEASE, bound);
    ZS_RING_FENCE(RELEASE, lap);
}

/* Room for n items at the cost of the oldest. */
static inline void zs_writer_overwrite(struct zs_ring_writer *w, uint64_t n)
{
    if (n > w->ring.limit - (w->head - w->floor))
        zs_writer_lap(w, w->head + n - w->ring.limit);
}

/* -- publishing --------------------------------------------------------------------------------- */

/* Let readers see n more counts, whose bytes are written. */
static inline void zs_writer_publish(struct zs_ring_writer *w, uint64_t n)
{
    w->head += n;
    ZS_RING_STORE(&w->ring.control->head, w->head, RELEASE, data);
}

/* Whether any reader sleeps; one that falls asleep now sees the new head. */
static inline uint64_t zs_writer_dozers(struct zs_ring_writer *w)
{
    ZS_RING_FENCE(SEQ_CST, wake);
    return ZS_RING_LOAD(&w->ring.control->dozers, RELAXED, wake);
}

/* End the stream: what is published stays readable, and nothing follows. */
static inline void zs_writer_close(struct zs_ring_writer *w)
{
    ZS_RING_STORE(&w->ring.control->closed, 1, RELEASE, end);
}

/* Go on where the last writer stopped; what it had claimed and not published is gone.
 * The caller has the writer's byte lock. */
static inline int zs_writer_begin(struct zs_ring_writer *w, const struct zs_ring *ring)
{
    struct zs_ring_control *control = ring->control;
    w->ring = *ring;
    w->head = ZS_RING_LOAD(&control->head, RELAXED, none); /* the lock ordered it */
    w->floor = ZS_RING_LOAD(&control->floor, RELAXED, none);
    w->sequence = ZS_RING_LOAD(&control->sequence, RELAXED, none);
    if (w->head - w->floor > ring->limit || !zs_ring_possible(ring, w->head) || !zs_ring_possible(ring, w->floor))
        return -EPROTO;
    /* The last writer may have laid a record there that it did not publish. */
    if (ZS_RING_LOAD(&control->whole_at, RELAXED, none) == w->head)
        ZS_RING_STORE(&control->whole_at, w->head - 1, RELAXED, data);
    ZS_RING_STORE(&control->doze, 0, RELAXED, room);
    ZS_RING_STORE(&control->state, ZS_RING_ACTIVE, RELAXED, none);
    return 0;
}

/* Whoever takes a place next is in it before it has signed: until then it is not judged by our signature.
 * So it is at each of a place's three ends. */
static inline void zs_writer_leave(struct zs_ring_writer *w)
{
    ZS_RING_STORE(&w->ring.control->peer.life, ZS_RING_NOBODY, RELAXED, none);
    ZS_RING_STORE(&w->ring.control->state, ZS_RING_FREE, RELEASE, slot);
}

/* Free the slot of a reader that is dead, and forget what it had not released; the caller is the writer
 * and has its byte lock, so nobody can be in it. Whoever joins there clears the dead one's bit and word;
 * until then a wake of it wakes nobody. */
static inline void zs_ring_evict(const struct zs_ring *ring, struct zs_ring_slot *slot)
{
    ZS_RING_STORE(&slot->tail, ZS_RING_LOAD(&ring->control->head, RELAXED, none), RELAXED, space);
    ZS_RING_STORE(&slot->peer.life, ZS_RING_NOBODY, RELAXED, none);
    ZS_RING_STORE(&slot->state, ZS_RING_FREE, RELAXED, slot);
}

/* -- joining: the caller has the slot's byte lock --------------------------------------------------- */

/* The oldest count that is worth joining at by slot `mine`: with readers about, the floor; without, what
 * none of those who left had released. */
static inline uint64_t zs_ring_oldest(const struct zs_ring *ring, const struct zs_ring_slot *mine, uint64_t floor)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < ring->count; i++) {
        struct zs_ring_slot *slot = &ring->slots[i];
        uint32_t state = ZS_RING_LOAD(&slot->state, RELAXED, join);
        uint64_t ahead = ZS_RING_LOAD(&slot->tail, RELAXED, join) - floor;
        if (state == ZS_RING_ACTIVE && slot != mine)
            return floor;
        if ((state == ZS_RING_FREE || slot == mine) && ahead <= ring->limit && ahead > most)
            most = ahead;
    }
    return floor + most;
}

/* Hold the writer up from here on: it sees the slot, or we see its floor and move up. */
static inline int zs_reader_hold(struct zs_ring_reader *r)
{
    uint64_t floor;
    int patience = ZS_RING_PATIENCE;
    for (;;) {
        ZS_RING_STORE(&r->slot->tail, r->tail, RELAXED, join);
        ZS_RING_STORE(&r->slot->state, ZS_RING_JOINING, RELAXED, join);
        ZS_RING_FENCE(SEQ_CST, join);
        floor = ZS_RING_LOAD(&r->ring.control->floor, RELAXED, join);
        if (!zs_ring_after(floor, r->tail))
            break;
        if (!--patience)
            return -EPROTO;
        r->tail = floor;
    }
    ZS_RING_STORE(&r->slot->state, ZS_RING_ACTIVE, RELAXED, join);
    return 0;
}

/* Take slot i: go on where a dead reader stopped, else begin at the oldest count or the next. */
static inline int zs_reader_join(struct zs_ring_reader *r, const struct zs_ring *ring, uint32_t i, int oldest)
{
    struct zs_ring_control *control = ring->control;
    int rc;
    memset(r, 0, sizeof *r);
    r->ring = *ring;
    r->slot = &ring->slots[i];
    r->bit = 1ULL << i;
    r->taken = ZS_RING_LOAD(&r->slot->taken, RELAXED, none);
    r->lost = ZS_RING_LOAD(&r->slot->lost, RELAXED, none);
    r->high_water = ZS_RING_LOAD(&r->slot->high_water, RELAXED, none);
    ZS_RING_AND(&control->dozers, ~r->bit, RELAXED, wake);
    ZS_RING_STORE(&r->slot->doze, 0, RELAXED, wake);
    if (ZS_RING_LOAD(&r->slot->state, RELAXED, join) == ZS_RING_ACTIVE) /* the lock ordered both */
        r->tail = ZS_RING_LOAD(&r->slot->tail, RELAXED, join);
    else if (oldest)
        r->tail = zs_ring_oldest(ring, r->slot, ZS_RING_LOAD(&control->floor, ACQUIRE, bound));
    else {
        r->tail = ZS_RING_LOAD(&control->head, ACQUIRE, data);
        r->sequence = ZS_RING_LOAD(&control->sequence, RELAXED, data);
        r->known = 1;
    }
    if (ring->on_full != ZS_RING_OVERWRITE) {
        if ((rc = zs_reader_hold(r)) < 0)
            return rc;
    } else {
        ZS_RING_STORE(&r->slot->tail, r->tail, RELAXED, join);
        ZS_RING_STORE(&r->slot->state, ZS_RING_ACTIVE, RELAXED, join);
    }
    r->next = r->head = r->tail;
    return zs_ring_possible(ring, r->tail) ? 0 : -EPROTO;
}

static inline void zs_reader_leave(struct zs_ring_reader *r)
{
    ZS_RING_STORE(&r->slot->peer.life, ZS_RING_NOBODY, RELAXED, none);
    ZS_RING_STORE(&r->slot->state, ZS_RING_FREE, RELEASE, slot);
}

/* -- reading --------------------------------------------------------------------------------------- */

/* Look how far the writer is. -EPROTO for a head that no honest writer has. */
static inline int zs_reader_observe(struct zs_ring_reader *r)
{
    uint64_t head = ZS_RING_LOAD(&r->ring.control->head, ACQUIRE, data), waiting = head - r->tail;
    if (waiting < r->head - r->tail || (waiting > r->ring.limit && r->ring.on_full != ZS_RING_OVERWRITE))
        return -EPROTO;
    r->head = head;
    if (waiting > r->high_water) {
        r->high_water = waiting;
        ZS_RING_STORE(&r->slot->high_water, waiting, RELAXED, none);
    }
    return 0;
}

/* Whether what lies from count on can have been overwritten since head was observed: 0, or by how much.
 * Asked after the bytes were read. */
static inline uint64_t zs_reader_lapped(struct zs_ring_reader *r, uint64_t count)
{
    ZS_RING_FENCE(ACQUIRE, lap);
    uint64_t floor = ZS_RING_LOAD(&r->ring.control->floor, RELAXED, lap);
    return zs_ring_after(floor, count) ? floor - count : 0;
}

/* Move up to what is not overwritten yet: how many counts were missed, or -EPROTO in *rc. */
static inline uint64_t zs_reader_catch_up(struct zs_ring_reader *r, int *rc)
{
    uint64_t missed = zs_reader_lapped(r, r->next), head;
    *rc = 0;
    if (!missed)
        return 0;
    ZS_RING_FENCE(ACQUIRE, bound);
    head = ZS_RING_LOAD(&r->ring.control->head, ACQUIRE, data);
    if (zs_ring_after(r->next + missed, head) || !zs_ring_possible(&r->ring, r->next + missed)) {
        *rc = -EPROTO;
        return 0;
    }
    r->next += missed;
    if (zs_ring_after(r->next, r->head))
        r->head = head;
    return missed;
}

/* Give everything below count back to the writer. n items or messages were taken. */
static inline void zs_reader_release(struct zs_ring_reader *r, uint64_t count, uint64_t n)
{
    r->tail = count;
    r->taken += n;
    ZS_RING_STORE(&r->slot->taken, r->taken, RELAXED, none);
    ZS_RING_STORE(&r->slot->tail, count, RELEASE, space);
}

/* Whether the writer sleeps; one that falls asleep now sees the new tail. */
static inline uint32_t zs_reader_awaited(struct zs_ring_reader *r)
{
    if (r->ring.on_full != ZS_RING_BLOCK)
        return 0;
    ZS_RING_FENCE(SEQ_CST, room);
    return ZS_RING_LOAD(&r->ring.control->doze, RELAXED, room);
}

/* Whether the writer closed; then the head that is observed next is the last. */
static inline int zs_reader_ended(struct zs_ring_reader *r)
{
    return ZS_RING_LOAD(&r->ring.control->closed, ACQUIRE, end) != 0;
}

#endif
