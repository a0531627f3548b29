/* The state of a run: all that has to be copied to come back to it. */
#ifndef STATE_H
#define STATE_H

#include <string.h>
#include <ucontext.h>

#include "explorer.h"

enum { THREADS = 4, LOCATIONS = 56, HISTORY = 12, BUFFER = 12, STACK = 16384, SLICES = 2 };

enum kind { LOAD, READ, STORE, WRITE, MODIFY, FENCE, WAIT, WAKE, ALIVE };
enum change { EXCHANGE, ADD, OR, AND };
enum life { RUNNING, ASLEEP, DONE, DEAD };

/* By location: the oldest entry of its history that is still visible. By thread: how many of its plain
 * accesses are known to be over. */
typedef struct { uint8_t at[LOCATIONS + THREADS]; } view;

struct entry {
    uint64_t value;
    view view; /* what who reads it by acquire learns */
};

struct location {
    const void *address;
    uint8_t size, count;
    uint8_t read_at[THREADS], written_at[THREADS]; /* by thread: its last plain access, in its own count */
    struct entry history[HISTORY];
};

struct pending {
    enum kind kind;
    enum change change;
    enum order order;
    const struct site *site;
    uint8_t location, size;
    uint64_t value, result; /* WAIT: value is what it expects; ALIVE: the thread it asks for */
};

struct thread {
    enum life life;
    struct pending op;
    view known;    /* what it has to see */
    view acquired; /* what a fence would have it see */
    view released; /* what its relaxed stores pass on */
    uint8_t sleeps_on;
    uint8_t slices; /* sleeps that ended by time */
    uint8_t buffered;
    struct { uint8_t location; uint64_t value; } buffer[BUFFER]; /* TSO: oldest first */
    ucontext_t context;
};

struct state {
    uint8_t threads, locations;
    int8_t last;          /* the thread that made the last step */
    uint8_t preemptions;
    uint8_t killed;       /* 1 + the thread, once one was */
    view agreed;          /* what seq_cst fences hand from one to the next */
    struct thread thread[THREADS];
    struct location location[LOCATIONS];
};

static inline void join(view *into, const view *from) {
    for (int n = 0; n < LOCATIONS + THREADS; n++)
        if (into->at[n] < from->at[n])
            into->at[n] = from->at[n];
}

#endif
