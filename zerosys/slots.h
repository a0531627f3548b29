/* The table at the start of a slot pool's memory: who has which slot, in which generation.
 *
 * A slot's word changes as a whole, by compare-and-swap, so that whoever holds an old one can do nothing
 * with it. Its seat is that of the process that holds the slot: a byte lock, which death frees.
 *   SYNC slot   give: CAS word, release      | take: CAS word, acquire
 *   SYNC gate   give: word, fence, waiting   | wait: waiting, fence, words   (seq_cst) */
#ifndef ZEROSYS_SLOTS_H
#define ZEROSYS_SLOTS_H

#include "ring_peer.h"
#include "ring_wait.h"

#define ZS_SLOTS_MAGIC 0x73746f6c736f727aULL /* "zroslots" */
#define ZS_SLOTS_VERSION 1u
#define ZS_SLOTS_SEATS 0xffffu

enum zs_slot_state { ZS_SLOT_FREE, ZS_SLOT_HELD, ZS_SLOT_SENT };

struct zs_slot {
    uint64_t word; /* generation << 32 | state << 16 | seat */
    uint64_t unused[7];
};

struct zs_slots_header {
    uint64_t magic;
    uint32_t version, count;
    uint64_t nbytes, stride, first; /* of a slot: asked, apart, where the first begins */
    uint64_t unused[3];
    uint32_t waiting; /* a futex word: 1 while somebody sleeps for a slot */
    uint32_t unused_too[15];
    struct zs_slot slots[];
};

static inline uint64_t zs_slot_word(uint64_t generation, uint32_t state, uint32_t seat)
{
    return generation << 32 | (uint64_t)state << 16 | seat;
}

static inline uint32_t zs_slot_generation(uint64_t word) { return (uint32_t)(word >> 32); }
static inline uint32_t zs_slot_state(uint64_t word) { return word >> 16 & 0xffff; }
static inline uint32_t zs_slot_seat(uint64_t word) { return word & 0xffff; }

/* The generation after that of a word; 0 is never one. */
static inline uint64_t zs_slot_next(uint64_t word)
{
    uint32_t next = zs_slot_generation(word) + 1;
    return next ? next : 1;
}

static inline uint64_t zs_slot_load(const struct zs_slots_header *table, uint32_t i)
{
    return ZS_RING_LOAD(&table->slots[i].word, ACQUIRE, slot);
}

/* Turn a slot's word into another, if it is still what it was. */
static inline int zs_slot_turn(struct zs_slots_header *table, uint32_t i, uint64_t from, uint64_t to)
{
    return ZS_RING_CAS(&table->slots[i].word, &from, to, ACQ_REL, slot);
}

/* Take any free slot, looking from `i` on: its word, or 0. *i becomes its number. */
static inline uint64_t zs_slots_take(struct zs_slots_header *table, uint32_t count, uint32_t seat, uint32_t *i)
{
    for (uint32_t n = 0, at = *i < count ? *i : 0; n < count; n++, at = at + 1 < count ? at + 1 : 0) {
        uint64_t word = zs_slot_load(table, at);
        if (zs_slot_state(word) == ZS_SLOT_FREE) {
            uint64_t taken = zs_slot_word(zs_slot_next(word), ZS_SLOT_HELD, seat);
            if (zs_slot_turn(table, at, word, taken)) {
                *i = at;
                return taken;
            }
        }
    }
    return 0;
}

/* Wake who waits, after a slot has become free. */
static inline void zs_slots_wake(struct zs_slots_header *table)
{
    ZS_RING_FENCE(SEQ_CST, gate);
    if (ZS_RING_LOAD(&table->waiting, RELAXED, gate) && ZS_RING_SWAP(&table->waiting, 0, RELAXED, gate))
        ZS_RING_WAKE(&table->waiting);
}

/* Give a slot back: 1, or 0 where the word is no longer the slot's. */
static inline int zs_slots_give(struct zs_slots_header *table, uint32_t i, uint64_t word)
{
    if (!zs_slot_turn(table, i, word, zs_slot_word(zs_slot_generation(word), ZS_SLOT_FREE, 0)))
        return 0;
    zs_slots_wake(table);
    return 1;
}

/* Take a slot, or sleep ns at most for one: its word, or 0. */
static inline uint64_t zs_slots_doze(struct zs_slots_header *table, uint32_t count, uint32_t seat, uint32_t *i,
                                     int64_t ns)
{
    ZS_RING_STORE(&table->waiting, 1, RELAXED, gate);
    ZS_RING_FENCE(SEQ_CST, gate);
    uint64_t word = zs_slots_take(table, count, seat, i);
    if (!word)
        (void)ZS_RING_SLEEP(&table->waiting, ns);
    return word ? word : zs_slots_take(table, count, seat, i);
}

/* Free what processes hold that died, in one state; `fd` has no lock of ours. The slots freed. */
static inline uint32_t zs_slots_sweep(struct zs_slots_header *table, uint32_t count, int fd, uint32_t own,
                                      uint32_t state)
{
    uint32_t freed = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = zs_slot_load(table, i);
        if (zs_slot_state(word) == state && zs_slot_seat(word) != own &&
            zs_ring_locked(fd, zs_slot_seat(word)) == 0)
            freed += (uint32_t)zs_slots_give(table, i, word);
    }
    return freed;
}

/* Free what the last process in a seat held, which is ours now: 1, or 0 where something it had sent
 * may still arrive, so that the seat is not to be used. */
static inline int zs_slots_inherit(struct zs_slots_header *table, uint32_t count, uint32_t seat)
{
    int clean = 1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = zs_slot_load(table, i);
        if (zs_slot_seat(word) != seat)
            continue;
        if (zs_slot_state(word) == ZS_SLOT_SENT)
            clean = 0;
        else if (zs_slot_state(word) == ZS_SLOT_HELD)
            (void)zs_slots_give(table, i, word);
    }
    return clean;
}

/* Sit down in the first seat that nobody has: its number, or -errno. */
static inline int zs_slots_sit(struct zs_slots_header *table, uint32_t count, int own_fd)
{
    for (uint32_t seat = 1; seat < ZS_SLOTS_SEATS; seat++) {
        int rc = zs_ring_lock(own_fd, seat);
        if (rc == -EAGAIN)
            continue;
        if (rc < 0)
            return rc;
        if (zs_slots_inherit(table, count, seat))
            return (int)seat;
        zs_ring_unlock(own_fd, seat);
    }
    return -EAGAIN;
}

#endif
