/* A shared region made in C as zerosys makes one: the floor of region_setup.py.
 *
 * memfd, size, seals, mmap, [mbind], [huge pages gathered in slices], MADV_POPULATE_WRITE by threads in
 * items, [move_pages to see where each page lies]. region_make() gives seconds or -errno. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { BASE, HUGETLB, THP };
enum { SLICE = 64 << 20, HUGE = 2 << 20, CHUNK = 4096 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static struct work {
    char *at;
    size_t size, item, next;
    int error, pin, cpu;
} work;

static void *populate(void *unused)
{
    (void)unused;
    if (work.pin) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(__atomic_fetch_add(&work.cpu, 1, __ATOMIC_RELAXED), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    for (;;) {
        size_t begin = __atomic_fetch_add(&work.next, work.item, __ATOMIC_RELAXED);
        if (begin >= work.size || __atomic_load_n(&work.error, __ATOMIC_RELAXED))
            return NULL;
        size_t length = work.size - begin < work.item ? work.size - begin : work.item;
        if (madvise(work.at + begin, length, MADV_POPULATE_WRITE))
            __atomic_store_n(&work.error, errno, __ATOMIC_RELAXED);
    }
}

static int populate_all(char *at, size_t size, size_t item, int threads, int pin)
{
    pthread_t thread[64];
    work = (struct work){.at = at, .size = size, .item = item, .pin = pin};
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, populate, NULL))
            return EAGAIN;
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return work.error;
}

/* Transparent huge pages: one base page each, and the rest gathered around it. */
static int gather(char *at, size_t size)
{
    for (size_t slice = 0; slice < size; slice += SLICE) {
        size_t length = size - slice < SLICE ? size - slice : SLICE;
        for (size_t seed = slice; seed < slice + length; seed += HUGE)
            if (madvise(at + seed, 4096, MADV_POPULATE_WRITE))
                return errno;
        if (madvise(at + slice, length, MADV_COLLAPSE))
            return errno;
    }
    return 0;
}

/* Whether every page lies on *node*: asked in chunks, touching nothing. */
static int placed(char *at, size_t size, size_t page, int node)
{
    static void *pages[CHUNK];
    static int status[CHUNK];
    for (size_t done = 0; done < size;) {
        long n = 0;
        for (; n < CHUNK && done < size; done += page)
            pages[n++] = at + done;
        if (syscall(SYS_move_pages, 0, n, pages, NULL, status, 0))
            return errno;
        for (long i = 0; i < n; i++)
            if (status[i] != node)
                return EIO;
    }
    return 0;
}

static int make(size_t size, int mode, int threads, int node, size_t item, int pin, char **region)
{
    int fd = memfd_create("c", MFD_CLOEXEC | MFD_ALLOW_SEALING | (mode == HUGETLB ? MFD_HUGETLB : 0)), error = 0;
    unsigned long nodes = node >= 0 ? 1UL << node : 0;
    if (fd < 0)
        return errno;
    if (ftruncate(fd, size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        error = errno;
    /* Room to begin at a multiple of 2 MiB, as huge pages need. */
    char *room = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *at = (char *)(((uintptr_t)room + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    if (!error && mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        error = errno;
    close(fd);
    *region = at;
    if (!error && node >= 0 && syscall(SYS_mbind, at, size, MPOL_BIND, &nodes, 65UL, 0UL))
        error = errno;
    if (!error && mode == THP)
        error = gather(at, size);
    if (!error)
        error = populate_all(at, size, item, threads, pin);
    if (!error && node >= 0)
        error = placed(at, size, mode == HUGETLB ? HUGE : 4096, node);
    return error;
}

double region_make(size_t size, int mode, int threads, int node, size_t item, int pin, char **region)
{
    double start = now();
    int error = make(size, mode, threads, node, item, pin, region);
    return error ? -error : now() - start;
}

int region_drop(char *region, size_t size) { return munmap(region, size); }
