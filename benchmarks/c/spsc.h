/* The limit that the rings are held against: one producer, one consumer, a power of two of fixed slots,
   each side keeping a copy of the other's counter and reading it anew only when it seems full or empty. */
#ifndef SPSC_H
#define SPSC_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define LINE 128 /* two cache lines: the prefetcher takes them in pairs */

typedef struct {
    _Alignas(LINE) _Atomic uint64_t published;
    _Alignas(LINE) _Atomic uint64_t released;
    _Alignas(LINE) unsigned char slots[];
} spsc_shared;

typedef struct {
    spsc_shared *shared;
    uint64_t mask, size; /* slots - 1; bytes a slot */
    uint64_t mine, theirs;
} spsc_end;

static inline unsigned char *spsc_slot(const spsc_end *end, uint64_t number) {
    return end->shared->slots + (number & end->mask) * end->size;
}

/* Slots that the producer may fill, at least *want* of them unless the ring is too full. */
static inline uint64_t spsc_room(spsc_end *producer, uint64_t want) {
    uint64_t slots = producer->mask + 1;
    if (slots - (producer->mine - producer->theirs) < want)
        producer->theirs = atomic_load_explicit(&producer->shared->released, memory_order_acquire);
    return slots - (producer->mine - producer->theirs);
}

static inline void spsc_publish(spsc_end *producer, uint64_t count) {
    producer->mine += count;
    atomic_store_explicit(&producer->shared->published, producer->mine, memory_order_release);
}

static inline uint64_t spsc_ready(spsc_end *consumer) {
    if (consumer->theirs == consumer->mine)
        consumer->theirs = atomic_load_explicit(&consumer->shared->published, memory_order_acquire);
    return consumer->theirs - consumer->mine;
}

static inline void spsc_release(spsc_end *consumer, uint64_t count) {
    consumer->mine += count;
    atomic_store_explicit(&consumer->shared->released, consumer->mine, memory_order_release);
}

#endif
