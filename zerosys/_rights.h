/* Descriptors beside the bytes of a message on a Unix socket, each call as a result or -errno. */
#ifndef ZEROSYS_RIGHTS_H
#define ZEROSYS_RIGHTS_H

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "_result.h"

#define ZS_MOST_FDS 253 /* SCM_MAX_FD: whatever a stranger sends fits, and so can be closed */

#define ZS_MOST_SENT 4

/* Send n bytes, and beside them count descriptors, ZS_MOST_SENT at most; never sleeps. */
static inline ssize_t zs_send_fds(int sock, const void *bytes, size_t n, const int *fds, size_t count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(ZS_MOST_SENT * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0 && count <= ZS_MOST_SENT) {
        memset(&control, 0, sizeof control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    return zs_or_errno(sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* Receive up to n bytes; fds has room for ZS_MOST_FDS, which close on exec. Never sleeps. */
static inline ssize_t zs_receive_fds(int sock, void *bytes, size_t n, int *fds, size_t *count, int *flags)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(ZS_MOST_FDS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = n};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = zs_or_errno(recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
    *count = 0;
    *flags = message.msg_flags;
    if (got < 0)
        return got;
    for (struct cmsghdr *it = CMSG_FIRSTHDR(&message); it; it = CMSG_NXTHDR(&message, it)) {
        if (it->cmsg_level != SOL_SOCKET || it->cmsg_type != SCM_RIGHTS)
            continue;
        size_t more = (it->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds + *count, CMSG_DATA(it), more * sizeof(int));
        *count += more;
    }
    return got;
}

#endif
