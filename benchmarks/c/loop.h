/* The system calls in C loops: the floor under every wrapper. A loop gives nanoseconds, or -1 on a wrong answer. */
#ifndef BENCHMARKS_LOOP_H
#define BENCHMARKS_LOOP_H

#include <time.h>

static inline long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

#define LOOP(name, parameters, ...)          \
    long long name parameters                \
    {                                        \
        long long start = now();             \
        for (long i = 0; i < n; i++)         \
            if (!(__VA_ARGS__)) return -1;   \
        return now() - start;                \
    }

#endif
