/* NUMA policy and page placement, each call as a result or -errno; libnuma kept quiet. */
#ifndef ZEROSYS_NUMA_H
#define ZEROSYS_NUMA_H

#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "_result.h"

/* Facts of the kernel's interface that older headers lack. */
#ifndef MPOL_LOCAL
#define MPOL_LOCAL 4
#endif
#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5
#endif
#ifndef MPOL_WEIGHTED_INTERLEAVE
#define MPOL_WEIGHTED_INTERLEAVE 6
#endif
#ifndef MPOL_F_STATIC_NODES
#define MPOL_F_STATIC_NODES (1 << 15)
#endif
#ifndef MPOL_F_RELATIVE_NODES
#define MPOL_F_RELATIVE_NODES (1 << 14)
#endif
#ifndef MPOL_F_NUMA_BALANCING
#define MPOL_F_NUMA_BALANCING (1 << 13)
#endif

/* One width for every mask: the most nodes a kernel can be built for. The kernel takes
 * one bit less than maxnode says, hence 1025 (libnuma's versions disagree about it). */
#define NODES_MAX 1024
#define ZS_MAXNODE (NODES_MAX + 1)
#define ZS_WORD_BITS (8 * sizeof(unsigned long))
#define ZS_CPUS_MAX 8192 /* the most CPUs a kernel can be built for */

struct zs_node_mask {
    unsigned long word[NODES_MAX / (8 * sizeof(unsigned long))];
};

static inline int zs_mask_add(struct zs_node_mask *mask, long node)
{
    if (node < 0 || node >= NODES_MAX)
        return -EINVAL;
    mask->word[node / ZS_WORD_BITS] |= 1UL << (node % ZS_WORD_BITS);
    return 0;
}

static inline int zs_mask_has(const struct zs_node_mask *mask, long node)
{
    return node >= 0 && node < NODES_MAX
           && mask->word[node / ZS_WORD_BITS] >> (node % ZS_WORD_BITS) & 1;
}

/* The first node of the mask from *node* on, or -1. */
static inline long zs_mask_next(const struct zs_node_mask *mask, long node)
{
    for (; node < NODES_MAX; node = (node / ZS_WORD_BITS + 1) * ZS_WORD_BITS) {
        unsigned long rest = mask->word[node / ZS_WORD_BITS] >> (node % ZS_WORD_BITS);
        if (rest)
            return node + __builtin_ctzl(rest);
    }
    return -1;
}

static inline ssize_t zs_set_mempolicy(int mode, const struct zs_node_mask *nodes)
{
    return zs_or_errno(set_mempolicy(mode, nodes->word, ZS_MAXNODE));
}

/* The mode, with its flags, and the nodes; *address* only with MPOL_F_ADDR. */
static inline ssize_t zs_get_mempolicy(int *mode, struct zs_node_mask *nodes, void *address,
                                       unsigned int flags)
{
    /* A kernel that wrote past the mask would be found out here, not in our caller's frame. */
    const unsigned long canary = 0x5ca1ab1e;
    struct { struct zs_node_mask mask; unsigned long guard; } got = { .guard = canary };
    ssize_t rc = zs_or_errno(get_mempolicy(mode, got.mask.word, ZS_MAXNODE, address, flags));
    if (got.guard != canary)
        return -EOVERFLOW;
    *nodes = got.mask;
    return rc;
}

static inline ssize_t zs_mbind(void *address, size_t length, int mode,
                               const struct zs_node_mask *nodes, unsigned int flags)
{
    return zs_or_errno(mbind(address, length, mode, nodes->word, ZS_MAXNODE, flags));
}

static inline ssize_t zs_migrate_pages(int pid, const struct zs_node_mask *from,
                                       const struct zs_node_mask *to)
{
    return zs_or_errno(migrate_pages(pid, ZS_MAXNODE, from->word, to->word));
}

/* nodes NULL only asks, and never faults a page in. Positive: so many did not move. */
static inline ssize_t zs_move_pages(int pid, size_t n, void **pages, const int *nodes,
                                    int *statuses, int flags)
{
    return zs_or_errno(move_pages(pid, n, pages, nodes, statuses, flags));
}

/* libnuma got this one late; the number is the same wherever system calls share a table. */
#if !defined(SYS_set_mempolicy_home_node) \
    && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) \
        || defined(__powerpc__) || defined(__s390__) || defined(__riscv) || defined(__loongarch__))
#define SYS_set_mempolicy_home_node 450
#endif

static inline ssize_t zs_set_mempolicy_home_node(void *address, size_t length, unsigned long node,
                                                 unsigned long flags)
{
#ifdef SYS_set_mempolicy_home_node
    return zs_or_errno(syscall(SYS_set_mempolicy_home_node, address, length, node, flags));
#else
    (void)address, (void)length, (void)node, (void)flags;
    return -ENOSYS;
#endif
}

static inline ssize_t zs_getcpu(unsigned int *cpu, unsigned int *node)
{
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 29)
    return zs_or_errno(getcpu(cpu, node)); /* the vDSO's: no system call at all */
#endif
#endif
    return zs_or_errno(syscall(SYS_getcpu, cpu, node, NULL));
}

/* Ask for n pages that lie step bytes apart; *pages* and *statuses* are room for as many. */
static inline ssize_t zs_page_statuses(uintptr_t address, size_t n, size_t step, void **pages,
                                       int *statuses)
{
    for (size_t i = 0; i < n; i++)
        pages[i] = (void *)(address + i * step);
    return zs_move_pages(0, n, pages, NULL, statuses, 0);
}

/* Gather the pages from *settled* on that have a last word at the front; how many have one now.
 * *pending* is the status of those that have none; statuses that only tell another node are none. */
static inline size_t zs_settle(void **pages, int *statuses, size_t settled, size_t n, int node,
                               int pending)
{
    for (size_t i = settled; i < n; i++) {
        int status = statuses[i];
        if (status == pending || (status >= 0 && status != node)) {
            statuses[i] = pending;
            continue;
        }
        void *page = pages[i];
        pages[i] = pages[settled], statuses[i] = statuses[settled];
        pages[settled] = page, statuses[settled] = status;
        settled++;
    }
    return settled;
}

/* Move n pages to *node*; *statuses*, in an order of their own, are each one's last word: the
 * node, or -errno, of which -EBUSY is a page that was tried and -EAGAIN one that was not.
 *
 * The kernel gives up after the first batch that did not move whole and says nothing about its
 * pages and those that follow. So what is pending is asked for and tried again together for as
 * long as that settles any: singly it would cost a flush of all CPUs a page. */
static inline ssize_t zs_move_statuses(uintptr_t address, size_t n, size_t step, int node,
                                       int flags, void **pages, int *nodes, int *statuses)
{
    for (size_t i = 0; i < n; i++) {
        pages[i] = (void *)(address + i * step);
        nodes[i] = node;
        statuses[i] = -EAGAIN;
    }
    size_t settled = 0;
    for (int round = 0; round < 32; round++) {
        size_t before = settled;
        ssize_t rc = zs_move_pages(0, n - settled, pages + settled, nodes, statuses + settled, flags);
        if (rc <= 0)
            return rc;
        settled = zs_settle(pages, statuses, settled, n, node, -EAGAIN);
        rc = zs_move_pages(0, n - settled, pages + settled, NULL, statuses + settled, 0);
        if (rc < 0)
            return rc;
        settled = zs_settle(pages, statuses, settled, n, node, -EAGAIN);
        if (settled == n)
            return 0;
        if (settled == before) {
            for (size_t i = settled; i < n; i++)
                statuses[i] = -EBUSY;
            return 0;
        }
    }
    return 0;
}

/* numa_available() says yes where a container's filter answers EPERM instead of ENOSYS. */
static inline int zs_available(void)
{
    ssize_t rc = zs_or_errno(get_mempolicy(NULL, NULL, 0, NULL, 0));
    return numa_available() >= 0 && rc != -EPERM && rc != -ENOSYS;
}

static inline int zs_node_exists(int node)
{
    return node >= 0 && node <= numa_max_node() && numa_bitmask_isbitset(numa_nodes_ptr, node);
}

/* Not numa_node_of_cpu, which asks for every number up to the highest node, and for one that
 * is not there warns on stderr. */
static inline ssize_t zs_node_of_cpu(int cpu)
{
    unsigned long words[ZS_CPUS_MAX / ZS_WORD_BITS];
    struct bitmask cpus = { .size = ZS_CPUS_MAX, .maskp = words };
    if (cpu < 0 || cpu >= ZS_CPUS_MAX)
        return -EINVAL;
    for (int node = 0; node <= numa_max_node(); node++) {
        if (!zs_node_exists(node))
            continue;
        memset(words, 0, sizeof words);
        if (numa_node_to_cpus(node, &cpus) == 0 && numa_bitmask_isbitset(&cpus, cpu))
            return node;
    }
    return -EINVAL;
}

/* Not numa_run_on_node and its mask form: when sched_setaffinity is refused these print, or end
 * the process. libnuma tells the CPUs of each node, and the call is ours. */
static inline ssize_t zs_run_on_node_mask(const struct zs_node_mask *nodes)
{
    unsigned long words[ZS_CPUS_MAX / ZS_WORD_BITS], all[ZS_CPUS_MAX / ZS_WORD_BITS] = {0};
    struct bitmask cpus = { .size = ZS_CPUS_MAX, .maskp = words };
    for (int node = 0; node <= numa_max_node(); node++) {
        if (!zs_mask_has(nodes, node) || !zs_node_exists(node))
            continue;
        memset(words, 0, sizeof words);
        if (numa_node_to_cpus(node, &cpus) == 0)
            for (size_t i = 0; i < ZS_CPUS_MAX / ZS_WORD_BITS; i++)
                all[i] |= words[i];
    }
    return zs_or_errno(sched_setaffinity(0, sizeof all, (cpu_set_t *)all));
}

#endif
