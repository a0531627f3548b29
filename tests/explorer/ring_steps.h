/* The ring's own headers, each of whose atomics is a step of the explorer; and the ends of a small ring. */
#ifndef RING_STEPS_H
#define RING_STEPS_H

#include "explorer.h"

#define ZS_RING_VALUE(at, asked) ((__typeof__(*(at)))(asked))
#define ZS_RING_LOAD(at, order, sync) ZS_RING_VALUE(at, ex_load(EX_SITE(order, sync), at, sizeof *(at)))
#define ZS_RING_STORE(at, value, order, sync) ex_store(EX_SITE(order, sync), at, sizeof *(at), (uint64_t)(value))
#define ZS_RING_FENCE(order, sync) ex_fence(EX_SITE(order, sync))
#define ZS_RING_OR(at, bits, order, sync) ex_or(EX_SITE(order, sync), at, sizeof *(at), bits)
#define ZS_RING_AND(at, bits, order, sync) ex_and(EX_SITE(order, sync), at, sizeof *(at), bits)
#define ZS_RING_SWAP(at, value, order, sync) ZS_RING_VALUE(at, ex_exchange(EX_SITE(order, sync), at, sizeof *(at), value))
#define ZS_RING_CAS(at, expected, value, order, sync) \
    ex_compare_exchange(EX_SITE(order, sync), at, sizeof *(at), expected, value)
#define ZS_RING_SLEEP(word, ns) ex_ring_sleep(word, ns)
#define ZS_RING_WAKE(word) ex_futex_wake(word)

static inline int ex_ring_sleep(uint32_t *word, int64_t ns)
{
    (void)ns;
    ex_futex_wait(word, 1);
    return 0;
}

#include "ring_message.h"
#include "ring_protocol.h"
#include "ring_wait.h"

/* Counts begin just below where they wrap. */
#define FIRST (UINT64_MAX - 1)
enum { SLOTS = 2, WORDS = 8 };

static struct {
    struct zs_ring_control control;
    struct zs_ring_slot slots[SLOTS];
} memory;
static uint64_t data[2 * WORDS] __attribute__((aligned(64))); /* the second half is the first one's mirror */

const void *ex_home(const volatile void *at)
{
    const uint64_t *word = (const uint64_t *)(uintptr_t)at;
    bool mirrored = word >= data && word < data + 2 * WORDS;
    uint64_t words = memory.control.header.size / sizeof *word;
    return mirrored ? data + (word - data) % words : (const void *)word;
}

/* A ring of so many words with one word an item; every slot free. */
static struct zs_ring ring_of(uint64_t words, uint64_t limit, uint32_t kind, uint32_t on_full)
{
    memory.control.header.size = words * sizeof *data;
    memory.control.head = memory.control.floor = FIRST;
    memory.control.whole_at = FIRST - 1;
    for (int n = 0; n < SLOTS; n++)
        memory.slots[n].tail = FIRST;
    return (struct zs_ring){
        .control = &memory.control, .slots = memory.slots, .data = (unsigned char *)data,
        .size = words * sizeof *data, .mask = words * sizeof *data - 1, .limit = limit,
        .item_size = kind == ZS_RING_MESSAGES ? 1 : sizeof *data, .start = FIRST, .count = SLOTS,
        .kind = kind, .on_full = on_full,
    };
}

static inline uint64_t *place_of(const struct zs_ring *ring, uint64_t count) { return (uint64_t *)zs_ring_at(ring, count); }

#endif
