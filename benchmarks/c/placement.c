/* Where the pages of memory lie, and moving them: move_pages(2) in a C loop, the floor under placement() and move_to(). */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"

enum { CHUNK = 4096 };

static void *pages[CHUNK];
static int nodes[CHUNK], statuses[CHUNK];

/* Ask for n pages from *at* on, after moving them to *node* unless that is -1; how many lie on *wanted*. */
static long walk(char *at, long n, long page, int node, int wanted)
{
    long there = 0;
    while (n) {
        long some = n < CHUNK ? n : CHUNK;
        for (long i = 0; i < some; i++)
            pages[i] = at + i * page, nodes[i] = node, statuses[i] = -1;
        if (node >= 0 && syscall(SYS_move_pages, 0, some, pages, nodes, statuses, MPOL_MF_MOVE))
            return -1;
        if (node < 0 && syscall(SYS_move_pages, 0, some, pages, NULL, statuses, 0))
            return -1;
        for (long i = 0; i < some; i++)
            there += statuses[i] == wanted;
        at += some * page;
        n -= some;
    }
    return there;
}

/* Nanoseconds to look up n pages, all of which must lie on *node*; -1 on any other answer. */
long long look(char *at, long n, long page, int node)
{
    long long start = now();
    return walk(at, n, page, -1, node) == n ? now() - start : -1;
}

/* Nanoseconds to move n pages to *node* and to look where each lies then; -1 on any other answer. */
long long move(char *at, long n, long page, int node)
{
    long long start = now();
    if (walk(at, n, page, node, node) != n || walk(at, n, page, -1, node) != n)
        return -1;
    return now() - start;
}
