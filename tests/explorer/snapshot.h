/* A state that can be come back to, and known again: copies of it, and the set of those that were seen. */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include "model.h"

static char stacks[THREADS][STACK] __attribute__((aligned(64)));

struct frame {
    uint64_t choices; /* bits of what is still to be tried from here */
    char text[200];   /* the step that led here */
    size_t used[THREADS];
    char *copy; /* the state, and the used parts of the stacks */
};

static uintptr_t stack_pointer(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.sp;
#else
#error "say here where this processor's context keeps its stack pointer"
#endif
}

static size_t used_stack(int n)
{
    enum { RED_ZONE = 128 };
    struct thread *thread = &now.thread[n];
    if (thread->life == DONE || thread->life == DEAD)
        return 0;
    return (size_t)(stacks[n] + STACK - (char *)stack_pointer(&thread->context)) + RED_ZONE;
}

static size_t used_state(void) { return offsetof(struct state, location) + now.locations * sizeof *now.location; }

static void save(struct frame *frame)
{
    size_t all = used_state();
    for (int n = 0; n < now.threads; n++)
        all += frame->used[n] = used_stack(n);
    char *to = frame->copy = malloc(all);
    memcpy(to, &now, used_state());
    to += used_state();
    for (int n = 0; n < now.threads; to += frame->used[n++])
        memcpy(to, stacks[n] + STACK - frame->used[n], frame->used[n]);
}

static void restore(const struct frame *frame)
{
    const char *from = frame->copy;
    memcpy(&now, from, offsetof(struct state, location));
    memcpy(now.location, from + offsetof(struct state, location), now.locations * sizeof *now.location);
    from += used_state();
    for (int n = 0; n < now.threads; from += frame->used[n++])
        memcpy(stacks[n] + STACK - frame->used[n], from, frame->used[n]);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const char *at = bytes;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (; size; size--, at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash ^ (hash >> 32);
}

static uint64_t mix_thread(uint64_t hash, int n)
{
    struct thread *thread = &now.thread[n];
    hash = mix(hash, &thread->life, sizeof thread->life);
    if (thread->life != DONE) {
        hash = mix(hash, &thread->known, sizeof(view));
        hash = mix(hash, &thread->acquired, sizeof(view));
        hash = mix(hash, &thread->released, sizeof(view));
    }
    hash = mix(hash, thread->buffer, thread->buffered * sizeof *thread->buffer);
    if (thread->life != RUNNING && thread->life != ASLEEP)
        return hash;
    hash = mix(hash, &thread->op, sizeof thread->op);
    hash = mix(hash, &thread->sleeps_on, 1);
    hash = mix(hash, &thread->slices, 1);
    uintptr_t sp = stack_pointer(&thread->context);
    hash = mix(hash, &sp, sizeof sp);
#if defined(__x86_64__)
    hash = mix(hash, thread->context.uc_mcontext.gregs, sizeof thread->context.uc_mcontext.gregs);
#else
    hash = mix(hash, thread->context.uc_mcontext.regs, sizeof thread->context.uc_mcontext.regs);
#endif
    return mix(hash, (void *)sp, (size_t)(stacks[n] + STACK - (char *)sp));
}

static uint64_t fingerprint(int preemptions)
{
    uint64_t hash = 1;
    for (int n = 0; n < now.locations; n++) {
        struct location *location = &now.location[n];
        hash = mix(hash, &location->count, 1);
        hash = mix(hash, location->read_at, sizeof location->read_at);
        hash = mix(hash, location->written_at, sizeof location->written_at);
        for (int entry = 0; entry < location->count; entry++) {
            hash = mix(hash, &location->history[entry].value, 8);
            hash = mix(hash, &location->history[entry].view, sizeof(view));
        }
    }
    hash = mix(hash, &now.agreed, sizeof(view));
    hash = mix(hash, &now.killed, 1);
    if (preemptions >= 0) {
        hash = mix(hash, &now.preemptions, 1);
        hash = mix(hash, &now.last, 1);
    }
    for (int n = 0; n < now.threads; n++)
        hash = mix_thread(hash, n);
    return hash | 1; /* 0 is a free place of the table */
}

static struct {
    uint64_t *place;
    size_t places, count;
} visited;

static bool insert(uint64_t *place, size_t places, uint64_t hash)
{
    for (size_t at = hash >> 8 & (places - 1);; at = (at + 1) & (places - 1)) {
        if (place[at] == hash)
            return false;
        if (place[at] == 0) {
            place[at] = hash;
            return true;
        }
    }
}

static bool is_new(uint64_t hash)
{
    if (2 * visited.count >= visited.places) {
        size_t places = visited.places ? 2 * visited.places : 1 << 16;
        uint64_t *larger = calloc(places, sizeof *larger);
        for (size_t at = 0; at < visited.places; at++)
            if (visited.place[at])
                insert(larger, places, visited.place[at]);
        free(visited.place);
        visited.place = larger, visited.places = places;
    }
    bool fresh = insert(visited.place, visited.places, hash);
    visited.count += fresh;
    return fresh;
}

#endif
