/* memfd_create(2) and file seals, each as a result or -errno. */
#ifndef ZEROSYS_MEMFD_H
#define ZEROSYS_MEMFD_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "_result.h"

/* Numbers of the kernel's interface that older headers lack. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef MFD_HUGETLB
#define MFD_HUGETLB 0x0004U
#endif
#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

/* The raw call: some C libraries are older than the kernel they run on. */
static inline ssize_t zs_memfd_create(const char *name, unsigned int flags)
{
    return zs_or_errno(syscall(SYS_memfd_create, name, flags));
}

static inline ssize_t zs_add_seals(int fd, int seals)
{
    return zs_or_errno(fcntl(fd, F_ADD_SEALS, seals));
}

static inline ssize_t zs_get_seals(int fd) { return zs_or_errno(fcntl(fd, F_GET_SEALS)); }

#endif
