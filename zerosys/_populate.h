/* Make the pages of a range exist, in threads of our own that take no signals.
 *
 * A range is cut into items; each thread takes the next one until none is left, one failed,
 * or the caller asked to stop. The caller waits in short turns, so that it can look for
 * Ctrl-C. On a kernel without MADV_POPULATE (before 5.14) each page is touched by a futex
 * call: the kernel answers EFAULT where a touch of our own would die of SIGBUS. */
#ifndef ZEROSYS_POPULATE_H
#define ZEROSYS_POPULATE_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>

#include "_mmap.h"

#define ZS_CPU_WORDS 128 /* 8192 CPUs, the most that Linux is built for */
#define ZS_MOST_THREADS 64

struct zs_populate {
    size_t at, length, item, page;
    int advice; /* MADV_POPULATE_READ or _WRITE */
    int pinned; /* whether cpus is to be used */
    unsigned long cpus[ZS_CPU_WORDS];
    size_t next, done; /* bytes taken, bytes that exist now: atomics */
    int error, stop;   /* -errno of the first failure, the caller's wish: atomics */
    int running;       /* threads of ours */
    sem_t ended;
    pthread_t threads[ZS_MOST_THREADS];
};

/* One page by futex(2): OR its first word with 0, or compare it in a wait of no length. */
static inline ssize_t zs_touch(size_t at, int advice)
{
    const struct timespec none = {0, 0};
    ssize_t rc;
    if (advice == MADV_POPULATE_WRITE)
        rc = zs_or_errno(syscall(SYS_futex, at, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, (void *)0, at,
                                 FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)));
    else
        rc = zs_or_errno(syscall(SYS_futex, at, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &none, (void *)0, 0));
    return rc == -EFAULT || rc == -ENOSYS || rc == -EPERM ? rc : 0; /* else it read or wrote the word */
}

static inline ssize_t zs_populate_item(struct zs_populate *job, size_t at, size_t length)
{
    ssize_t rc;
    int tries = 64; /* a filter may answer EAGAIN for ever, and this thread takes no signals */
    do
        rc = zs_madvise(at, length, job->advice);
    while ((rc == -EINTR || rc == -EAGAIN) && --tries);
    if (rc != -EINVAL)
        return rc;
    for (size_t end = at + length; at < end; at += job->page) {
        if (__atomic_load_n(&job->stop, __ATOMIC_RELAXED))
            return 0;
        if ((rc = zs_touch(at, job->advice)) < 0)
            return rc;
    }
    return 0;
}

/* The next item, done: 1; none left (or stopped, or failed): 0. */
static inline int zs_populate_next(struct zs_populate *job)
{
    if (__atomic_load_n(&job->stop, __ATOMIC_RELAXED) || __atomic_load_n(&job->error, __ATOMIC_RELAXED))
        return 0;
    size_t begin = __atomic_fetch_add(&job->next, job->item, __ATOMIC_RELAXED);
    if (begin >= job->length)
        return 0;
    size_t length = job->length - begin < job->item ? job->length - begin : job->item;
    ssize_t rc = zs_populate_item(job, job->at + begin, length);
    if (rc < 0) {
        int none = 0;
        __atomic_compare_exchange_n(&job->error, &none, (int)rc, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return 0;
    }
    __atomic_fetch_add(&job->done, length, __ATOMIC_RELAXED);
    return 1;
}

static inline void *zs_populate_thread(void *argument)
{
    struct zs_populate *job = argument;
    /* A wish, for speed: placement is the policy's. A cpuset may refuse it. */
    if (job->pinned)
        (void)!sched_setaffinity(0, sizeof job->cpus, (cpu_set_t *)job->cpus);
    while (zs_populate_next(job))
        ;
    sem_post(&job->ended);
    return NULL;
}

/* Start up to n threads; how many run is in job->running, and may be 0. */
static inline void zs_populate_start(struct zs_populate *job, int n)
{
    sigset_t all, before;
    pthread_attr_t small;
    job->running = 0;
    sem_init(&job->ended, 0, 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread inherits the mask */
    while (job->running < n &&
           !pthread_create(&job->threads[job->running], &small, zs_populate_thread, job))
        job->running++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
}

/* Wait up to ms for one thread's end: 1 if it came. */
static inline int zs_populate_wait(struct zs_populate *job, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return sem_timedwait(&job->ended, &until) == 0;
}

/* Let no thread take a further item (all are taken, unless the caller was interrupted). */
static inline void zs_populate_stop(struct zs_populate *job)
{
    int interrupted = __atomic_load_n(&job->next, __ATOMIC_RELAXED) < job->length && job->running;
    __atomic_store_n(&job->stop, interrupted, __ATOMIC_RELAXED);
    for (int i = 0; i < job->running; i++)
        pthread_join(job->threads[i], NULL);
    sem_destroy(&job->ended);
}

#endif
