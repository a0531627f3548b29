/* mmap(2) and the calls on what it mapped, each as a result or -errno. */
#ifndef ZEROSYS_MMAP_H
#define ZEROSYS_MMAP_H

#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "_memfd.h"
#include "_result.h"

/* Numbers of the kernel's interface that older headers lack. */
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x080000
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MAP_HUGE_MASK
#define MAP_HUGE_MASK 0x3f
#endif
#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 0x01
#endif
#ifndef MADV_FREE
#define MADV_FREE 8
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_KEEPONFORK
#define MADV_KEEPONFORK 19
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_GUARD_REMOVE
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define ZS_HUGETLBFS_MAGIC 0x958458f6

static inline ssize_t zs_mmap(size_t at, size_t length, int protection, int flags, int fd, off_t offset)
{
    return zs_map_or_errno(mmap((void *)at, length, protection, flags, fd, offset));
}

static inline ssize_t zs_munmap(size_t at, size_t length)
{
    return zs_or_errno(munmap((void *)at, length));
}

/* Move private anonymous pages to an address reserved for them, and leave empty ones, so that
 * no other thread's mapping can come to lie in a hole (Linux 5.7). */
static inline ssize_t zs_mremap(size_t from, size_t length, size_t to)
{
    return zs_map_or_errno(mremap((void *)from, length, length,
                                  MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (void *)to));
}

static inline ssize_t zs_mprotect(size_t at, size_t length, int protection)
{
    return zs_or_errno(mprotect((void *)at, length, protection));
}

static inline ssize_t zs_madvise(size_t at, size_t length, int advice)
{
    return zs_or_errno(madvise((void *)at, length, advice));
}

/* The raw call: mlock2 came to C libraries long after mlock. */
static inline ssize_t zs_mlock2(size_t at, size_t length, unsigned int flags)
{
    return zs_or_errno(flags ? syscall(SYS_mlock2, at, length, flags) : mlock((void *)at, length));
}

static inline ssize_t zs_munlock(size_t at, size_t length)
{
    return zs_or_errno(munlock((void *)at, length));
}

static inline ssize_t zs_msync(size_t at, size_t length, int flags)
{
    return zs_or_errno(msync((void *)at, length, flags));
}

static inline ssize_t zs_mincore(size_t at, size_t length, unsigned char *residency)
{
    return zs_or_errno(mincore((void *)at, length, residency));
}

/* Put the holes of a file over addresses that are ours: zeros that no limit counts before they
 * are written, unlike private memory under RLIMIT_DATA or vm.overcommit_memory=2. */
static inline ssize_t zs_map_holes(size_t at, size_t length)
{
    ssize_t fd = zs_memfd_create("zerosys-closed", MFD_CLOEXEC), rc;
    if (fd < 0)
        return fd;
    rc = zs_or_errno(ftruncate((int)fd, (off_t)length));
    if (rc == 0)
        rc = zs_mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)fd, 0);
    close((int)fd);
    return rc;
}

static inline ssize_t zs_ftruncate(int fd, off_t size) { return zs_or_errno(ftruncate(fd, size)); }

/* What a mapping of fd is rounded to: the page of its hugetlbfs, else the base page. */
static inline ssize_t zs_page_of(int fd)
{
    struct statfs fs;
    ssize_t rc = zs_or_errno(fstatfs(fd, &fs));
    if (rc < 0)
        return rc;
    return (uint32_t)fs.f_type == ZS_HUGETLBFS_MAGIC ? fs.f_bsize : sysconf(_SC_PAGESIZE);
}

#endif
