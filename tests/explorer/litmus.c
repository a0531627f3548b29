/* The explorer explored: small programs whose outcome is known for each model. */
#include <string.h>

#include "explorer.h"

static uint64_t data, flag, x, y;
static uint32_t word;
#define AT(what) &what, sizeof what

const void *ex_home(const volatile void *at) { return (const void *)at; }

static void publish(void)
{
    ex_store(EX_SITE(RELAXED, none), AT(data), 42);
    ex_store(EX_SITE(RELEASE, data), AT(flag), 1);
}

static void observe(void)
{
    if (ex_load(EX_SITE(ACQUIRE, data), AT(flag)))
        ex_check(ex_load(EX_SITE(RELAXED, none), AT(data)) == 42, "the flag was seen before the data");
}

static const struct scenario message_passing = {.name = "message-passing", .threads = {publish, observe}};

/* What is read and then given back: without release and acquire the read might come after the next write. */
static void give_back(void)
{
    ex_read(AT(data));
    ex_store(EX_SITE(RELEASE, space), AT(flag), 1);
}

static void reuse(void)
{
    if (ex_load(EX_SITE(ACQUIRE, space), AT(flag)))
        ex_write(AT(data), 7);
}

static const struct scenario giving_back = {.name = "giving-back", .threads = {give_back, reuse}};

/* What each saw of the other goes into the model's memory, where the end finds it. */
static uint64_t saw_x, saw_y;

static void store_x(void)
{
    ex_store(EX_SITE(RELAXED, none), AT(x), 1);
    ex_fence(EX_SITE(SEQ_CST, left));
    ex_store(EX_SITE(RELAXED, none), AT(saw_y), 1 + ex_load(EX_SITE(RELAXED, none), AT(y)));
}

static void store_y(void)
{
    ex_store(EX_SITE(RELAXED, none), AT(y), 1);
    ex_fence(EX_SITE(SEQ_CST, right));
    ex_store(EX_SITE(RELAXED, none), AT(saw_x), 1 + ex_load(EX_SITE(RELAXED, none), AT(x)));
}

static void one_saw_the_other(void)
{
    ex_check(ex_final(AT(saw_x)) + ex_final(AT(saw_y)) > 2, "neither saw the other");
}

static const struct scenario store_buffering = {
    .name = "store-buffering", .threads = {store_x, store_y}, .finish = one_saw_the_other};

/* Sleeping: the word is set before the waker looks whether anybody sleeps. */
static void sleeper(void)
{
    while (ex_load(EX_SITE(ACQUIRE, wake), AT(word)) == 0)
        ex_futex_wait(&word, 0);
}

static void waker(void)
{
    ex_store(EX_SITE(RELEASE, wake), AT(word), 1);
    ex_futex_wake(&word);
}

static void forgetful_waker(void) { ex_store(EX_SITE(RELEASE, wake), AT(word), 1); }

static const struct scenario futex = {.name = "futex", .threads = {sleeper, waker}};
static const struct scenario no_wake = {.name = "no-wake", .threads = {sleeper, forgetful_waker}};

/* Relaxed additions are still one step each, and pass on what an earlier release put there. */
static void add(void) { ex_add(EX_SITE(RELAXED, none), AT(x), 1); }
static void sum(void) { ex_check(ex_final(AT(x)) == 3, "an addition got lost"); }

static const struct scenario additions = {.name = "additions", .threads = {add, add, add}, .finish = sum};

static void pass_on(void) { ex_add(EX_SITE(RELAXED, none), AT(flag), 1); }

static void observe_two(void)
{
    if (ex_load(EX_SITE(ACQUIRE, data), AT(flag)) == 2)
        ex_check(ex_load(EX_SITE(RELAXED, none), AT(data)) == 42, "a release sequence was broken off");
}

static const struct scenario release_sequence = {.name = "release-sequence", .threads = {publish, pass_on, observe_two}};

/* Two readers agree on the order of one location's stores, whatever the model. */
static void count_up(void)
{
    for (int n = 1; n < 4; n++)
        ex_store(EX_SITE(RELAXED, none), AT(x), n);
}

static void read_up(void)
{
    uint64_t before = ex_load(EX_SITE(RELAXED, none), AT(x));
    ex_check(ex_load(EX_SITE(RELAXED, none), AT(x)) >= before, "a location went back");
}

static const struct scenario coherence = {.name = "coherence", .threads = {count_up, read_up, read_up}};

/* A dead thread's stores are all there once its death is known. */
static void unguarded(void)
{
    ex_store(EX_SITE(RELAXED, none), AT(data), 1);
    ex_store(EX_SITE(RELAXED, none), AT(flag), 1);
}

static void heir(void)
{
    uint64_t before = ex_load(EX_SITE(RELAXED, none), AT(flag));
    if (!ex_alive(0) && before)
        ex_check(ex_load(EX_SITE(RELAXED, none), AT(data)) == 1, "a dead thread's store is missing");
}

static const struct scenario death = {.name = "death", .threads = {unguarded, heir}, .killable = 1};

const struct scenario *const scenarios[] = {&message_passing, &giving_back, &store_buffering, &futex,     &no_wake, &additions,
                                            &release_sequence, &coherence,      &death, NULL};
