/* The two memory models: what a step does to the state, and which values a load may see. */
#ifndef MODEL_H
#define MODEL_H

#include <stdio.h>
#include <stdlib.h>

#include "state.h"

enum model { TSO, WEAK };

static struct state now;
static enum model model = WEAK;

static void give_up(const char *why)
{
    fprintf(stderr, "explorer: %s\n", why);
    exit(2);
}

static uint64_t plainly(const volatile void *at, size_t size)
{
    return size == 4 ? *(const volatile uint32_t *)at : *(const volatile uint64_t *)at;
}

/* Locations come into being when they are first used, with what the real memory has held since the start. */
static uint8_t location_of(const volatile void *address, size_t size)
{
    const void *home = ex_home(address);
    for (int n = 0; n < now.locations; n++)
        if (now.location[n].address == home) {
            if (now.location[n].size != size)
                give_up("a location is used with two sizes");
            return (uint8_t)n;
        }
    if (now.locations == LOCATIONS)
        give_up("too many locations");
    struct location *made = &now.location[now.locations];
    *made = (struct location){.address = home, .size = (uint8_t)size, .count = 1};
    made->history[0].value = plainly(home, size);
    return now.locations++;
}

static uint64_t latest(uint8_t at) { return now.location[at].history[now.location[at].count - 1].value; }

static bool acquires(enum order order) { return order == ACQUIRE || order == ACQ_REL || order == SEQ_CST; }
static bool releases(enum order order) { return order == RELEASE || order == ACQ_REL || order == SEQ_CST; }

static void fence(struct thread *thread, enum order order)
{
    if (acquires(order))
        join(&thread->known, &thread->acquired);
    if (order == SEQ_CST) {
        join(&thread->known, &now.agreed);
        now.agreed = thread->known;
    }
    if (releases(order))
        thread->released = thread->known;
}

static void see(struct thread *thread, uint8_t at, uint8_t entry, enum order order)
{
    view *learned = &now.location[at].history[entry].view;
    thread->known.at[at] = entry;
    join(&thread->acquired, learned);
    if (acquires(order))
        join(&thread->known, learned);
}

/* *inherits*: what the entry read by a read-modify-write passes on through the new one. */
static void put(struct thread *thread, uint8_t at, uint64_t value, enum order order, const view *inherits)
{
    struct location *location = &now.location[at];
    if (model == TSO) {
        location->history[0].value = value;
        return;
    }
    if (location->count == HISTORY)
        give_up("too many stores to one location");
    struct entry *made = &location->history[location->count];
    thread->known.at[at] = location->count++;
    made->value = value;
    made->view = releases(order) ? thread->known : thread->released;
    made->view.at[at] = thread->known.at[at];
    if (inherits)
        join(&made->view, inherits);
}

static uint64_t changed(const struct pending *op, uint64_t old)
{
    switch (op->change) {
    case ADD: return old + op->value;
    case OR: return old | op->value;
    case AND: return old & op->value;
    default: return op->value;
    }
}

/* Count a plain access; whether another thread's, which must not be at the same time, is over. */
static bool ordered(struct thread *thread, uint8_t at, bool writes)
{
    struct location *location = &now.location[at];
    int me = (int)(thread - now.thread);
    bool over = true;
    for (int n = 0; n < now.threads; n++)
        if (n != me)
            over &= location->written_at[n] <= thread->known.at[LOCATIONS + n] &&
                    (!writes || location->read_at[n] <= thread->known.at[LOCATIONS + n]);
    (writes ? location->written_at : location->read_at)[me] = ++thread->known.at[LOCATIONS + me];
    return over;
}

/* -- TSO's buffers ----------------------------------------------------------------------------- */

static void flush_one(struct thread *thread)
{
    now.location[thread->buffer[0].location].history[0].value = thread->buffer[0].value;
    memmove(thread->buffer, thread->buffer + 1, --thread->buffered * sizeof *thread->buffer);
}

static uint64_t through_buffer(const struct thread *thread, uint8_t at)
{
    for (int n = thread->buffered; n-- > 0;)
        if (thread->buffer[n].location == at)
            return thread->buffer[n].value;
    return now.location[at].history[0].value;
}

static void into_buffer(struct thread *thread, uint8_t at, uint64_t value)
{
    if (thread->buffered == BUFFER)
        give_up("a store buffer is full");
    thread->buffer[thread->buffered].location = at;
    thread->buffer[thread->buffered++].value = value;
}

/* Once somebody is dead, sleeps end: they are slices, after which a sleeper looks who lives. */
static void end_of_slice(struct thread *thread)
{
    thread->life = RUNNING;
    thread->slices++;
    thread->op = (struct pending){.kind = FENCE, .order = SEQ_CST};
    join(&thread->known, &now.thread[now.killed - 1].known); /* its stores have arrived long since */
}

/* -- steps ------------------------------------------------------------------------------------- */

/* In how many ways the pending step of *thread* can be made now. */
static int ways(const struct thread *thread)
{
    const struct pending *op = &thread->op;
    if (thread->life != RUNNING)
        return 0;
    if (model == WEAK)
        return op->kind == LOAD || op->kind == WAIT ? now.location[op->location].count - thread->known.at[op->location]
                                                    : 1;
    if (op->kind == ALIVE && now.thread[op->value].life == DEAD && now.thread[op->value].buffered)
        return 0; /* its end is not told before its stores have arrived */
    bool drains = op->kind > WRITE && !(op->kind == FENCE && op->order != SEQ_CST);
    return !drains || thread->buffered == 0;
}

/* Who is woken takes the kernel's lock once more, which is its next step. */
static void wake_all(uint8_t at)
{
    for (int n = 0; n < now.threads; n++)
        if (now.thread[n].life == ASLEEP && now.thread[n].sleeps_on == at) {
            now.thread[n].life = RUNNING;
            now.thread[n].op = (struct pending){.kind = FENCE, .order = SEQ_CST, .result = 1};
        }
}

/* The kernel's lock round a futex orders whoever waits and whoever wakes. */
static void futex(struct thread *thread, int way)
{
    struct pending *op = &thread->op;
    fence(thread, SEQ_CST);
    if (op->kind == WAKE) {
        wake_all(op->location);
        return;
    }
    uint8_t entry = model == WEAK ? (uint8_t)(thread->known.at[op->location] + way) : 0;
    if (entry >= now.location[op->location].count)
        entry = now.location[op->location].count - 1; /* the fence ruled some ways out */
    uint64_t seen = now.location[op->location].history[entry].value;
    if (model == WEAK)
        see(thread, op->location, entry, RELAXED);
    op->result = 0;
    if (seen == op->value)
        thread->life = ASLEEP, thread->sleeps_on = op->location;
}

/* False for a race. */
static bool step(struct thread *thread, int way)
{
    struct pending *op = &thread->op;
    uint8_t at = op->location;
    bool fine = model == TSO || (op->kind != READ && op->kind != WRITE) || ordered(thread, at, op->kind == WRITE);
    switch (op->kind) {
    case READ:
        way = now.location[at].count - 1 - thread->known.at[at]; /* without a race there is no other */
        /* fall through */
    case LOAD:
        if (model == TSO) {
            op->result = through_buffer(thread, at);
            break;
        }
        if (op->order == SEQ_CST)
            fence(thread, SEQ_CST);
        see(thread, at, (uint8_t)(thread->known.at[at] + way), op->order);
        op->result = now.location[at].history[thread->known.at[at]].value;
        break;
    case STORE:
    case WRITE:
        if (model == TSO)
            into_buffer(thread, at, op->value);
        else
            put(thread, at, op->value, op->order, NULL);
        if (op->order == SEQ_CST)
            fence(thread, SEQ_CST);
        break;
    case MODIFY:
        op->result = latest(at);
        if (model == WEAK)
            see(thread, at, now.location[at].count - 1, op->order);
        put(thread, at, changed(op, op->result), op->order, &now.location[at].history[now.location[at].count - 1].view);
        break;
    case FENCE: fence(thread, op->order); break;
    case WAIT:
    case WAKE: futex(thread, way); break;
    case ALIVE:
        op->result = now.thread[op->value].life != DEAD;
        if (!op->result) {
            join(&thread->known, &now.thread[op->value].known);
            fence(thread, SEQ_CST);
        }
        break;
    }
    return fine;
}

/* -- one form for states that differ only in what nobody can see any more ---------------------- */

static void rebase(view *seen, const view *base)
{
    for (int n = 0; n < LOCATIONS + THREADS; n++)
        seen->at[n] = seen->at[n] > base->at[n] ? (uint8_t)(seen->at[n] - base->at[n]) : 0;
}

static void rebase_accesses(uint8_t *accesses, const view *base)
{
    for (int n = 0; n < THREADS; n++) {
        uint8_t known = base->at[LOCATIONS + n];
        accesses[n] = accesses[n] > known ? (uint8_t)(accesses[n] - known) : 0;
    }
}

static void forget_the_past(void)
{
    view base;
    bool any = false;
    memset(&base, 0xff, sizeof base);
    for (int n = 0; n < now.threads; n++) {
        struct thread *thread = &now.thread[n];
        if (thread->life == DONE || thread->life == DEAD)
            continue;
        any = true;
        for (int at = 0; at < LOCATIONS + THREADS; at++)
            if (thread->known.at[at] < base.at[at])
                base.at[at] = thread->known.at[at];
    }
    if (!any || model == TSO)
        return;
    for (int at = 0; at < now.locations; at++) {
        struct location *location = &now.location[at];
        location->count -= base.at[at];
        memmove(location->history, location->history + base.at[at], location->count * sizeof *location->history);
        for (int entry = 0; entry < location->count; entry++)
            rebase(&location->history[entry].view, &base);
        rebase_accesses(location->read_at, &base);
        rebase_accesses(location->written_at, &base);
    }
    rebase(&now.agreed, &base);
    for (int n = 0; n < now.threads; n++) {
        rebase(&now.thread[n].known, &base);
        rebase(&now.thread[n].acquired, &base);
        rebase(&now.thread[n].released, &base);
    }
}

#endif
