/* Who has a ring's places, and whether they live: an OFD byte lock for each, never a guess. */
#ifndef ZEROSYS_RING_PEER_H
#define ZEROSYS_RING_PEER_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "ring_protocol.h"

#define ZS_RING_WRITER_PLACE 0 /* the byte that is locked; slot i's is 1 + i */

enum zs_ring_alive { ZS_RING_DEAD, ZS_RING_ALIVE, ZS_RING_UNKNOWN };

/* A description of our own, so that a lock on it is nobody else's: a descriptor, or -errno. */
static inline int zs_ring_reopen(int control_fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", control_fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static inline int zs_ring_flock(int fd, int call, short type, uint32_t place, struct flock *lock)
{
    memset(lock, 0, sizeof *lock);
    lock->l_type = type;
    lock->l_whence = SEEK_SET;
    lock->l_start = place;
    lock->l_len = 1;
    return fcntl(fd, call, lock) < 0 ? -errno : 0;
}

/* Take the lock of a place on a reopened descriptor: 0, or -EAGAIN if somebody has it. */
static inline int zs_ring_lock(int own_fd, uint32_t place)
{
    struct flock lock;
    int rc = zs_ring_flock(own_fd, F_OFD_SETLK, F_WRLCK, place, &lock);
    return rc == -EACCES ? -EAGAIN : rc;
}

static inline void zs_ring_unlock(int own_fd, uint32_t place)
{
    struct flock lock;
    (void)zs_ring_flock(own_fd, F_OFD_SETLK, F_UNLCK, place, &lock);
}

/* Whether somebody has the lock of a place: 1, 0 or -errno. Asked on any other description. */
static inline int zs_ring_locked(int fd, uint32_t place)
{
    struct flock lock;
    int rc = zs_ring_flock(fd, F_OFD_GETLK, F_WRLCK, place, &lock);
    return rc < 0 ? rc : lock.l_type != F_UNLCK;
}

/* The start time of a process of our pid namespace in clock ticks; 0 where there is none of that
 * number, and -1 where it cannot be known. */
static inline int64_t zs_ring_began(uint32_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT && access("/proc/self/stat", R_OK) == 0 ? 0 : -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return errno == ESRCH ? 0 : -1;
    text[n] = 0;
    char *at = strrchr(text, ')'); /* the name may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? (int64_t)strtoull(at + 1, NULL, 10) : -1;
}

/* The inode number of a namespace of ours; 0 where it cannot be known. */
static inline uint64_t zs_ring_space(const char *path)
{
    struct stat about;
    return stat(path, &about) < 0 ? 0 : (uint64_t)about.st_ino;
}

/* Write down that this process has a place, by lock or by pid. */
static inline void zs_ring_sign(struct zs_ring_peer *peer, uint32_t life)
{
    int64_t began = zs_ring_began((uint32_t)getpid());
    ZS_RING_STORE(&peer->pid, (uint32_t)getpid(), RELAXED, none);
    ZS_RING_STORE(&peer->began, began > 0 ? (uint64_t)began : 0, RELAXED, none);
    ZS_RING_STORE(&peer->pid_space, zs_ring_space("/proc/self/ns/pid"), RELAXED, none);
    ZS_RING_STORE(&peer->time_space, zs_ring_space("/proc/self/ns/time"), RELAXED, none);
    ZS_RING_STORE(&peer->life, life, RELAXED, none);
}

/* Whether a process that stands in by its number lives; unknown from another namespace. */
static inline enum zs_ring_alive zs_ring_pid_lives(const struct zs_ring_peer *peer)
{
    uint64_t spaces[] = {zs_ring_space("/proc/self/ns/pid"), zs_ring_space("/proc/self/ns/time")};
    uint64_t began = ZS_RING_LOAD(&peer->began, RELAXED, none);
    if (!spaces[0] || ZS_RING_LOAD(&peer->pid_space, RELAXED, none) != spaces[0] ||
        ZS_RING_LOAD(&peer->time_space, RELAXED, none) != spaces[1] || !began)
        return ZS_RING_UNKNOWN;
    int64_t now = zs_ring_began(ZS_RING_LOAD(&peer->pid, RELAXED, none));
    return now < 0 ? ZS_RING_UNKNOWN : (uint64_t)now == began ? ZS_RING_ALIVE : ZS_RING_DEAD;
}

/* Whether whoever has a place lives; control_fd holds no lock of ours. */
static inline enum zs_ring_alive zs_ring_lives(int control_fd, uint32_t place, const struct zs_ring_peer *peer)
{
    uint32_t life = ZS_RING_LOAD(&peer->life, RELAXED, none);
    if (life == ZS_RING_BY_PID)
        return zs_ring_pid_lives(peer);
    int locked = zs_ring_locked(control_fd, place);
    return locked < 0 ? ZS_RING_UNKNOWN : locked ? ZS_RING_ALIVE : life == ZS_RING_BY_LOCK ? ZS_RING_DEAD : ZS_RING_UNKNOWN;
}

/* Take a place: with own_fd by its lock, else (own_fd < 0) only one that is free, since nothing would keep
 * two from taking a dead one's. 0, or -EAGAIN if somebody has it. */
static inline int zs_ring_take(int control_fd, int own_fd, uint32_t place, struct zs_ring_peer *peer, uint32_t *state)
{
    uint32_t found = ZS_RING_LOAD(state, ACQUIRE, slot);
    if (own_fd >= 0) {
        int rc = zs_ring_lock(own_fd, place);
        if (rc < 0)
            return rc;
        found = ZS_RING_LOAD(state, ACQUIRE, slot); /* what the last owner left */
        if (found != ZS_RING_FREE && ZS_RING_LOAD(&peer->life, RELAXED, none) == ZS_RING_BY_PID &&
            zs_ring_pid_lives(peer) != ZS_RING_DEAD) {
            zs_ring_unlock(own_fd, place);
            return -EAGAIN;
        }
    } else if (found != ZS_RING_FREE || zs_ring_locked(control_fd, place) != 0)
        return -EAGAIN;
    if (found == ZS_RING_FREE && !ZS_RING_CAS(state, &found, ZS_RING_JOINING, ACQ_REL, slot)) {
        if (own_fd >= 0)
            zs_ring_unlock(own_fd, place);
        return -EAGAIN;
    }
    zs_ring_sign(peer, own_fd >= 0 ? ZS_RING_BY_LOCK : ZS_RING_BY_PID);
    return 0;
}

#endif
