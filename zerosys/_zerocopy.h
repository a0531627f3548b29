/* MSG_ZEROCOPY: a send that lends the pages, and the error queue that says when they are free. */
#ifndef ZEROSYS_ZEROCOPY_H
#define ZEROSYS_ZEROCOPY_H

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h> /* needs struct timespec */

#include "_result.h"

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
#ifndef SO_EE_ORIGIN_ZEROCOPY
#define SO_EE_ORIGIN_ZEROCOPY 5
#define SO_EE_CODE_ZEROCOPY_COPIED 1
#endif

/* The sends *first* to *last* of a socket, counted modulo 2**32, are no longer read. */
struct zs_freed {
    unsigned int first, last;
    int copied;
};

static inline ssize_t zs_enable_zerocopy(int fd)
{
    int one = 1;
    return zs_or_errno(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one));
}

static inline ssize_t zs_lend(int fd, const void *from, size_t n, int zerocopy)
{
    return zs_or_errno(send(fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL | (zerocopy ? MSG_ZEROCOPY : 0)));
}

/* One message of the error queue: 1 with *freed*, 0 for one of another kind, or -errno (-EAGAIN). */
static inline ssize_t zs_read_freed(int fd, struct zs_freed *freed)
{
    char control[512];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    ssize_t rc = zs_or_errno(recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT));
    if (rc < 0)
        return rc;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        struct sock_extended_err error;
        if (!(one->cmsg_level == SOL_IP && one->cmsg_type == IP_RECVERR) &&
            !(one->cmsg_level == SOL_IPV6 && one->cmsg_type == IPV6_RECVERR))
            continue;
        memcpy(&error, CMSG_DATA(one), sizeof error);
        if (error.ee_origin != SO_EE_ORIGIN_ZEROCOPY || error.ee_errno)
            continue;
        freed->first = error.ee_info;
        freed->last = error.ee_data;
        freed->copied = error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED;
        return 1;
    }
    return 0;
}

#endif
