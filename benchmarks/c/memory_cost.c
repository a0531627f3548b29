/* Placement and memory calls in C loops. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"

/* The policy calls with a mask of 1024 nodes, of which node 0 is set. */
static unsigned long nodes[16] = {1}, got[17];

static int one_status(char *page)
{
    void *pages[1] = {page};
    int status[1] = {-1};
    return syscall(SYS_move_pages, 0, 1L, pages, NULL, status, 0) == 0 ? status[0] : -1;
}

static int policy(void)
{
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, got, 1025UL, NULL, 0UL) == 0 ? mode : -1;
}

static int cpu_and_node(void)
{
    unsigned int cpu = ~0u, node = ~0u;
    return getcpu(&cpu, &node) == 0 ? (int)node : -1;
}

LOOP(mbind_page, (long n, char *page), syscall(SYS_mbind, page, 4096UL, MPOL_BIND, nodes, 1025UL, 0UL) == 0)
LOOP(get_mempolicy_thread, (long n), policy() == MPOL_DEFAULT)
LOOP(set_mempolicy_thread, (long n), syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0UL) == 0)
LOOP(move_pages_ask, (long n, char *page), one_status(page) >= 0)
LOOP(getcpu_call, (long n), cpu_and_node() >= 0)
LOOP(advise_page, (long n, char *page), madvise(page, 4096, MADV_NORMAL) == 0)
LOOP(lock_pair, (long n, char *page), mlock(page, 4096) == 0 && munlock(page, 4096) == 0)
LOOP(sync_page, (long n, char *page), msync(page, 4096, MS_SYNC) == 0)
