/* What a forked child must not go on with: the ends of rings that its parent has. */
#ifndef ZEROSYS_RING_FORK_H
#define ZEROSYS_RING_FORK_H

#include <pthread.h>
#include <unistd.h>

#include "ring.h"

#define ZS_END_FORKED (-2)

/* One for each end in this process. The lists change only under the GIL, which fork() holds too. */
struct zs_keep {
    int *own_fd; /* the description with the lock: an inherited copy would keep a dead parent alive */
    int *state;
    struct zs_keep *next, **link;
};

static struct zs_keep *zs_kept;

static inline void zs_keep(struct zs_keep *keep, int *own_fd, int *state)
{
    keep->own_fd = own_fd;
    keep->state = state;
    keep->next = zs_kept;
    keep->link = &zs_kept;
    if (zs_kept)
        zs_kept->link = &keep->next;
    zs_kept = keep;
}

static inline void zs_unkeep(struct zs_keep *keep)
{
    if (!keep->link)
        return;
    *keep->link = keep->next;
    if (keep->next)
        keep->next->link = keep->link;
    keep->link = NULL;
}

static inline void zs_in_child(void)
{
    for (struct zs_keep *keep = zs_kept; keep; keep = keep->next) {
        if (*keep->own_fd >= 0)
            close(*keep->own_fd);
        *keep->own_fd = -1;
        *keep->state = ZS_END_FORKED;
    }
}

static inline int zs_watch_forks(void) { return -pthread_atfork(NULL, NULL, zs_in_child); }

#endif
