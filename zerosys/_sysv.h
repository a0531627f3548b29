/* System V shared memory, each call as a result or -errno. */
#ifndef ZEROSYS_SYSV_H
#define ZEROSYS_SYSV_H

#include <stddef.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "_result.h"

/* A key may be any int, -1 too. */
static inline ssize_t zs_ftok(const char *path, int project, int *key)
{
    errno = 0;
    *key = ftok(path, project);
    return *key == -1 ? -errno : 0;
}

static inline ssize_t zs_shmget(int key, size_t size, int flags)
{
    return zs_or_errno(shmget(key, size, flags));
}

/* The address, which is below 2^63. */
static inline ssize_t zs_shmat(int id, int flags) { return zs_map_or_errno(shmat(id, NULL, flags)); }

static inline ssize_t zs_shmdt(size_t address) { return zs_or_errno(shmdt((const void *)address)); }

static inline ssize_t zs_shm_size(int id)
{
    struct shmid_ds about;
    ssize_t rc = zs_or_errno(shmctl(id, IPC_STAT, &about));
    return rc < 0 ? rc : (ssize_t)about.shm_segsz;
}

static inline ssize_t zs_shm_remove(int id) { return zs_or_errno(shmctl(id, IPC_RMID, NULL)); }

#endif
