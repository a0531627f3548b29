/* The limits for rings between two processes, on CPU 0 and CPU 1; each prints its figures, or fails.

   ring messages SIZE BATCH COUNT    copied in and out, sequence and sum checked: messages a second
   ring blocks SIZE RING COUNT       copied in, summed in place: bytes a second
   ring trips SIZE COUNT             there and back, copied each time: p50 and p99 in ns
   ring sleeps COUNT                 there and back by futex alone: p50 and p99 in ns */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spsc.h"

#define MESSAGE_SLOTS 4096
#define MESSAGE_BYTES (16u << 20) /* of a ring, at most */

static void fail(const char *what) {
    fprintf(stderr, "ring: %s\n", what);
    exit(1);
}

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set); /* refused or one CPU: the figures show it */
}

static inline void spin(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void *shared_bytes(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static spsc_end make(uint64_t slots, uint64_t size) {
    return (spsc_end){shared_bytes(sizeof(spsc_shared) + slots * size), slots - 1, size, 0, 0};
}

static uint64_t sum_of(const unsigned char *bytes, uint64_t size) {
    const uint64_t *words = (const uint64_t *)bytes;
    uint64_t sums[4] = {0};
    for (uint64_t at = 0; at < size / 32; at++)
        for (int lane = 0; lane < 4; lane++)
            sums[lane] += words[4 * at + lane];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

/* --- messages and blocks -------------------------------------------------------------------- */

static void produce(spsc_end ring, uint64_t batch, uint64_t count) {
    uint64_t *message = calloc(1, ring.size);
    for (uint64_t word = 1; word < ring.size / sizeof *message; word++)
        message[word] = 1;
    for (uint64_t sent = 0; sent < count; sent += batch) {
        while (spsc_room(&ring, batch) < batch)
            spin();
        for (uint64_t n = 0; n < batch; n++) {
            message[0] = sent + n;
            memcpy(spsc_slot(&ring, ring.mine + n), message, ring.size);
        }
        spsc_publish(&ring, batch);
    }
    free(message);
}

/* The seconds that *count* took, every one there and in order; each copied out, or summed in its place. */
static double consume(spsc_end ring, uint64_t batch, uint64_t count, int in_place) {
    unsigned char *message = calloc(1, ring.size);
    uint64_t number, total = 0, start = 0;
    for (uint64_t got = 0; got < count;) {
        uint64_t ready = spsc_ready(&ring);
        if (ready == 0) {
            spin();
            continue;
        }
        ready = ready < batch ? ready : batch;
        for (uint64_t n = 0; n < ready; n++, got++) {
            unsigned char *slot = spsc_slot(&ring, ring.mine + n);
            if (in_place)
                total += sum_of(slot, ring.size);
            else
                memcpy(message, slot, ring.size);
            memcpy(&number, in_place ? slot : message, sizeof number);
            if (number != got)
                fail("a message is missing, doubled or torn");
            if (!in_place)
                total += number + ring.size / sizeof number - 1;
        }
        spsc_release(&ring, ready);
        if (start == 0)
            start = now();
    }
    if (total != count * (count - 1) / 2 + count * (ring.size / sizeof number - 1))
        fail("the sum is wrong");
    free(message);
    return (double)(now() - start) / 1e9;
}

static void stream(uint64_t slots, uint64_t size, uint64_t batch, uint64_t count, int blocks) {
    spsc_end ring = make(slots, size);
    pid_t child = fork();
    if (child == 0) {
        pin(0);
        produce(ring, batch, count);
        _exit(0);
    }
    pin(1);
    double seconds = consume(ring, batch, count, blocks);
    waitpid(child, NULL, 0);
    printf("%.6g\n", (double)count * (blocks ? (double)size : 1.0) / seconds);
}

/* --- round trips ---------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void percentiles(uint64_t *taken, uint64_t count) {
    qsort(taken, count, sizeof *taken, by_size);
    printf("%lu %lu\n", (unsigned long)taken[count / 2], (unsigned long)taken[count * 99 / 100]);
}

static void send_one(spsc_end *ring, const unsigned char *message) {
    while (spsc_room(ring, 1) == 0)
        spin();
    memcpy(spsc_slot(ring, ring->mine), message, ring->size);
    spsc_publish(ring, 1);
}

static void receive_one(spsc_end *ring, unsigned char *message) {
    while (spsc_ready(ring) == 0)
        spin();
    memcpy(message, spsc_slot(ring, ring->mine), ring->size);
    spsc_release(ring, 1);
}

static void trips(uint64_t size, uint64_t count) {
    spsc_end there = make(4, size), back = make(4, size);
    unsigned char *message = calloc(1, size);
    pid_t child = fork();
    if (child == 0) {
        pin(1);
        for (uint64_t trip = 0; trip < count; trip++) {
            receive_one(&there, message);
            send_one(&back, message);
        }
        _exit(0);
    }
    pin(0);
    uint64_t *taken = malloc(count * sizeof *taken), echoed;
    for (uint64_t trip = 0; trip < count; trip++) {
        uint64_t start = now();
        memcpy(message, &trip, sizeof trip);
        send_one(&there, message);
        receive_one(&back, message);
        taken[trip] = now() - start;
        memcpy(&echoed, message, sizeof echoed);
        if (echoed != trip)
            fail("another message came back");
    }
    waitpid(child, NULL, 0);
    percentiles(taken, count);
}

/* --- the futex floor ------------------------------------------------------------------------ */

static void hand_on(_Atomic uint32_t *word, uint32_t value) {
    atomic_store(word, value);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void await(_Atomic uint32_t *word, uint32_t value) {
    for (uint32_t seen; (seen = atomic_load(word)) != value;)
        if (syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR)
            fail("futex");
}

static void sleeps(uint64_t count) {
    unsigned char *lines = shared_bytes(2 * LINE);
    _Atomic uint32_t *there = (void *)lines, *back = (void *)(lines + LINE);
    pid_t child = fork();
    if (child == 0) {
        pin(1);
        for (uint32_t trip = 1; trip <= count; trip++) {
            await(there, trip);
            hand_on(back, trip);
        }
        _exit(0);
    }
    pin(0);
    uint64_t *taken = malloc(count * sizeof *taken);
    for (uint32_t trip = 1; trip <= count; trip++) {
        uint64_t start = now();
        hand_on(there, trip);
        await(back, trip);
        taken[trip - 1] = now() - start;
    }
    waitpid(child, NULL, 0);
    percentiles(taken, count);
}

int main(int count, char **words) {
    uint64_t numbers[3] = {0};
    for (int n = 2; n < count && n < 5; n++)
        numbers[n - 2] = strtoull(words[n], NULL, 10);
    if (count == 5 && strcmp(words[1], "messages") == 0) {
        uint64_t slots = MESSAGE_SLOTS;
        while (slots * numbers[0] > MESSAGE_BYTES)
            slots /= 2;
        stream(slots, numbers[0], numbers[1], numbers[2], 0);
    } else if (count == 5 && strcmp(words[1], "blocks") == 0)
        stream(numbers[1] / numbers[0], numbers[0], 1, numbers[2], 1);
    else if (count == 4 && strcmp(words[1], "trips") == 0)
        trips(numbers[0], numbers[1]);
    else if (count == 3 && strcmp(words[1], "sleeps") == 0)
        sleeps(numbers[0]);
    else
        fail("messages SIZE BATCH COUNT | blocks SIZE RING COUNT | trips SIZE COUNT | sleeps COUNT");
    return 0;
}
