/* A system call's outcome as one number: the result, or -errno. */
#ifndef ZEROSYS_RESULT_H
#define ZEROSYS_RESULT_H

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>

/* errno is read here, in the callee, so after the call that is the argument: two
 * statements in generated code may have Python's own system calls between them. */
static inline ssize_t zs_or_errno(ssize_t rc) { return rc < 0 ? -errno : rc; }

/* The same for a call that answers an address: user addresses fit in 63 bits. */
static inline ssize_t zs_map_or_errno(void *at)
{
    return at == (void *)-1 ? -errno : (ssize_t)(intptr_t)at;
}

#endif
