/* One end of a transfer: memory, a pipe, a socket, a file or something else, read and written
 * so that the call never sleeps for data or for room: -EAGAIN instead. */
#ifndef ZEROSYS_TRANSFER_ENDS_H
#define ZEROSYS_TRANSFER_ENDS_H

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "_result.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

#define ZS_MEMORY_DEVICES 1 /* the major number of null, zero, full, random */

enum zs_end_kind {
    ZS_MEMORY,
    ZS_PIPE,
    ZS_SOCKET,
    ZS_FILE,  /* regular or block device: always ready, waits for its disk only */
    ZS_OTHER, /* terminals, /dev/zero, eventfds: poll() tells */
};

struct zs_end {
    enum zs_end_kind kind;
    int fd;             /* -1 for memory */
    int own;            /* fd is a description of our own, closed at the end */
    dev_t device;       /* what fd means: another thread can close it and open something else */
    ino_t inode;
    int blocking;       /* O_NONBLOCK was not set when the run began */
    int sure;           /* O_NONBLOCK is set, and stays while the run lasts */
    int messages;       /* a socket whose bytes come in messages, cut where they do not fit */
    loff_t offset;      /* next byte of a file; -1: the file's own position */
    unsigned char *at;  /* next byte of memory */
};

static inline int zs_has_messages(int fd)
{
    int type = SOCK_STREAM;
    socklen_t length = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type != SOCK_STREAM;
}

/* A write to a terminal sleeps in its driver until all of it is out, even after POLLOUT, and so long
 * as somebody holds the output (Ctrl-S). A description of our own can be non-blocking without a word
 * to all the others who share the terminal. Opening a master's would make a new terminal. */
static inline void zs_reopen_terminal(struct zs_end *end)
{
    int number, flags = fcntl(end->fd, F_GETFL);
    char path[40];
    if (flags < 0 || flags & O_NONBLOCK || !isatty(end->fd) || ioctl(end->fd, TIOCGPTN, &number) == 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", end->fd);
    int own = open(path, (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0)
        return;
    end->fd = own;
    end->own = 1;
}

static inline void zs_end_close(struct zs_end *end)
{
    if (end->own)
        close(end->fd);
    end->own = 0;
}

/* Whether the descriptor still means what it meant when the transfer was made. */
static inline int zs_end_is_same(const struct zs_end *end)
{
    struct stat status;
    if (end->kind == ZS_MEMORY || fstat(end->fd, &status) < 0)
        return 1; /* memory; or closed, which the next call will say */
    return status.st_dev == end->device && status.st_ino == end->inode;
}

static inline ssize_t zs_end_open(struct zs_end *end, int fd, loff_t offset)
{
    struct stat status;
    ssize_t rc = zs_or_errno(fstat(fd, &status));
    if (rc < 0)
        return rc;
    end->fd = fd;
    end->device = status.st_dev;
    end->inode = status.st_ino;
    end->offset = offset;
    switch (status.st_mode & S_IFMT) {
    case S_IFIFO: end->kind = ZS_PIPE; break;
    case S_IFSOCK:
        end->kind = ZS_SOCKET;
        end->messages = zs_has_messages(fd);
        break;
    case S_IFREG:
    case S_IFBLK: end->kind = ZS_FILE; break;
    default:
        end->kind = ZS_OTHER;
        /* /dev/null and its like are always ready: their driver knows no sleep. */
        end->sure = S_ISCHR(status.st_mode) && major(status.st_rdev) == ZS_MEMORY_DEVICES;
        zs_reopen_terminal(end);
    }
    return 0;
}

/* Note whether calls on the descriptor may sleep; its owner can change that between runs. */
static inline ssize_t zs_end_begin(struct zs_end *end)
{
    if (end->kind == ZS_MEMORY)
        return 0;
    ssize_t flags = zs_or_errno(fcntl(end->fd, F_GETFL));
    if (flags >= 0)
        end->blocking = !(flags & O_NONBLOCK);
    return flags;
}

/* Ready, or broken: either way the next call will say what is the matter. */
static inline int zs_ready(int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};
    return poll(&one, 1, 0) != 0;
}

/* Whether a plain call on this end could sleep although something else is ready. A socket's
 * O_NONBLOCK alone proves nothing: a transfer whose sink it is may take that away at any time. */
static inline int zs_would_sleep(const struct zs_end *end, short events)
{
    if ((end->kind != ZS_OTHER && end->kind != ZS_SOCKET) || end->sure)
        return 0;
    return !zs_ready(end->fd, events);
}

static inline loff_t *zs_end_offset(struct zs_end *end)
{
    return end->offset < 0 ? NULL : &end->offset;
}

static inline ssize_t zs_advance(struct zs_end *end, ssize_t n)
{
    if (n > 0 && end->offset >= 0)
        end->offset += n;
    return n;
}

/* Whether this kernel or file cannot promise not to sleep (pipes: before Linux 6.4). */
static inline int zs_no_nowait(ssize_t rc)
{
    return rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EINVAL;
}

static inline ssize_t zs_read_file(struct zs_end *end, void *into, size_t n)
{
    if (end->offset < 0)
        return zs_or_errno(read(end->fd, into, n));
    return zs_advance(end, zs_or_errno(pread(end->fd, into, n, end->offset)));
}

static inline ssize_t zs_write_file(struct zs_end *end, const void *from, size_t n)
{
    if (end->offset < 0)
        return zs_or_errno(write(end->fd, from, n));
    return zs_advance(end, zs_or_errno(pwrite(end->fd, from, n, end->offset)));
}

/* A message that is longer than n would lose its end without a word: -EMSGSIZE, and it waits on. */
static inline ssize_t zs_receive(struct zs_end *end, void *into, size_t n)
{
    if (end->messages) {
        ssize_t whole = zs_or_errno(recv(end->fd, into, 0, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC));
        if (whole < 0 || (size_t)whole > n)
            return whole < 0 ? whole : -EMSGSIZE;
    }
    return zs_or_errno(recv(end->fd, into, n, MSG_DONTWAIT));
}

static inline ssize_t zs_take(struct zs_end *end, void *into, size_t n)
{
    if (end->kind == ZS_SOCKET && end->offset < 0)
        return zs_receive(end, into, n);
    if (end->kind == ZS_FILE || !end->blocking)
        return zs_read_file(end, into, n);
    struct iovec place = {.iov_base = into, .iov_len = n};
    ssize_t rc = zs_or_errno(preadv2(end->fd, &place, 1, end->offset, RWF_NOWAIT));
    if (!zs_no_nowait(rc))
        return zs_advance(end, rc);
    /* What waits is enough for a read to return: it does not wait for the rest. */
    return zs_ready(end->fd, POLLIN) ? zs_read_file(end, into, n) : -EAGAIN;
}

static inline ssize_t zs_give(struct zs_end *end, const void *from, size_t n)
{
    if (end->kind == ZS_SOCKET && end->offset < 0)
        return zs_or_errno(send(end->fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (end->kind == ZS_FILE || !end->blocking)
        return zs_write_file(end, from, n);
    struct iovec place = {.iov_base = (void *)from, .iov_len = n};
    ssize_t rc = zs_or_errno(pwritev2(end->fd, &place, 1, end->offset, RWF_NOWAIT));
    if (!zs_no_nowait(rc))
        return zs_advance(end, rc);
    /* A writable pipe has one free slot: more than PIPE_BUF bytes could sleep. */
    return zs_ready(end->fd, POLLOUT) ? zs_write_file(end, from, n < PIPE_BUF ? n : PIPE_BUF) : -EAGAIN;
}

#endif
