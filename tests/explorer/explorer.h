/* An explorer of interleavings: real C code whose loads, stores and fences are turned into steps of a
 * memory model, and every order of those steps (and every value that a load may see) is tried.
 *
 * Threads of a scenario are coroutines. Each operation below hands itself to the explorer, which applies
 * it to the model in every way that the model allows, one after the other, from a copy of the whole state.
 * A state that was seen before is not gone through again.
 *
 * Two models. TSO: each thread has a FIFO store buffer, as on x86. WEAK: each location keeps its history,
 * a load may see anything not older than what its thread knows of, and only release, acquire and seq_cst
 * pass such knowledge on: a view-based release/acquire memory with seq_cst fences, like ARM's or POWER's.
 * No load sees a store that comes later, but two plain accesses that are not ordered are called a race.
 */
#ifndef EXPLORER_H
#define EXPLORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum order { RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST };

/* Where in the code under test an operation is: what can be taken out by --weaken. */
struct site {
    const char *file, *sync; /* sync: the ordering that it is an end of */
    int line;
    enum order order;
};

#define EX_SITE(order, sync)                                                      \
    ({                                                                            \
        static const struct site here = {__FILE__, #sync, __LINE__, order};       \
        &here;                                                                    \
    })

/* A plain access, as C11 has it: two that conflict and are not ordered by the others are a race, which ends
 * the exploration. A load or store that comes late would be seen so, even where the model makes none late. */
uint64_t ex_read(const volatile void *, size_t size);
void ex_write(volatile void *, size_t size, uint64_t value);

/* Operations of the code under test; sizes are 4 or 8 bytes. A location is always used with one size. */
uint64_t ex_load(const struct site *, const volatile void *, size_t size);
void ex_store(const struct site *, volatile void *, size_t size, uint64_t value);
uint64_t ex_exchange(const struct site *, volatile void *, size_t size, uint64_t value);
uint64_t ex_add(const struct site *, volatile void *, size_t size, uint64_t value);
uint64_t ex_or(const struct site *, volatile void *, size_t size, uint64_t value);
uint64_t ex_and(const struct site *, volatile void *, size_t size, uint64_t value);
void ex_fence(const struct site *);

/* futex(2): a wait returns at once if the value is another. It ends by time only once a thread is dead. */
bool ex_futex_wait(volatile void *, uint32_t expected);
void ex_futex_wake(volatile void *);

/* What a scenario may ask. The kernel tells of a death only after all that the dead one had stored. */
bool ex_alive(int thread);
void ex_check(bool holds, const char *what);

/* What a thread changes beside the model's memory lies on its own stack, or a state could not be come back to. */
struct scenario {
    const char *name;
    void (*prepare)(void);    /* fills the memory; runs alone, before the others, on the real memory */
    void (*threads[4])(void); /* up to the first NULL */
    void (*finish)(void);     /* looks at the end with ex_final(); may be NULL */
    unsigned killable;        /* a bit for each thread that may die at any step; one dies a run, or none */
};

uint64_t ex_final(const volatile void *, size_t size); /* the value that everybody agrees on in the end */
bool ex_killed(int thread);

extern const struct scenario *const scenarios[]; /* up to NULL */

/* Where a mirror maps the same bytes twice: the address by which the model knows them. */
const void *ex_home(const volatile void *);

#endif
