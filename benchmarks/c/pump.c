/* The loops of a pump, written as one writes them in C: the rivals of the benchmarks pump_*.
 * Each gives the bytes it has carried, or -1. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIPE_SIZE (1 << 20)

static int open_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 || fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE) < 0 ? -1 : 0;
}

/* File to a blocking socket, through a pipe of 1 MiB. */
long long c_splice(int src, int dst, long long count)
{
    long long done = 0;
    int ends[2];
    if (open_pipe(ends) < 0)
        return -1;
    while (done < count) {
        size_t most = count - done < PIPE_SIZE ? count - done : PIPE_SIZE;
        ssize_t in = splice(src, NULL, ends[1], NULL, most, SPLICE_F_NONBLOCK);
        if (in <= 0)
            break;
        while (in > 0) {
            ssize_t out = splice(ends[0], NULL, dst, NULL, in, 0);
            if (out <= 0)
                return -1;
            in -= out;
            done += out;
        }
    }
    close(ends[0]);
    close(ends[1]);
    return done;
}

long long c_sendfile(int src, int dst, long long count)
{
    long long done = 0;
    while (done < count) {
        ssize_t n = sendfile(dst, src, NULL, count - done);
        if (n <= 0)
            return -1;
        done += n;
    }
    return done;
}

struct way {
    int src, dst, ends[2], ended;
    ssize_t held;
    short want; /* of the source, POLLIN, or of the sink, POLLOUT */
};

/* Until one side blocks; bytes carried, or -1. */
static long long carry(struct way *w)
{
    long long done = 0;
    for (;;) {
        if (w->held == 0) {
            ssize_t n = splice(w->src, NULL, w->ends[1], NULL, PIPE_SIZE, SPLICE_F_NONBLOCK);
            if (n < 0 && errno == EAGAIN) {
                w->want = POLLIN;
                return done;
            }
            if (n <= 0) {
                w->ended = 1;
                shutdown(w->dst, SHUT_WR);
                return n < 0 ? -1 : done;
            }
            w->held = n;
        }
        ssize_t n = splice(w->ends[0], NULL, w->dst, NULL, w->held, SPLICE_F_NONBLOCK);
        if (n < 0 && errno == EAGAIN) {
            w->want = POLLOUT;
            return done;
        }
        if (n <= 0)
            return -1;
        w->held -= n;
        done += n;
    }
}

/* Two sockets, both ways, until both have ended. */
long long c_relay(int a, int b)
{
    struct way ways[2] = {{.src = a, .dst = b, .want = POLLIN}, {.src = b, .dst = a, .want = POLLIN}};
    long long done = 0;
    for (int i = 0; i < 2; i++) {
        fcntl(ways[i].src, F_SETFL, fcntl(ways[i].src, F_GETFL) | O_NONBLOCK);
        if (open_pipe(ways[i].ends) < 0)
            return -1;
    }
    while (!ways[0].ended || !ways[1].ended) {
        struct pollfd watched[2];
        for (int i = 0; i < 2; i++) {
            watched[i].fd = ways[i].ended ? -1 : ways[i].want == POLLIN ? ways[i].src : ways[i].dst;
            watched[i].events = ways[i].want;
            watched[i].revents = 0;
        }
        if (poll(watched, 2, -1) < 0)
            return -1;
        for (int i = 0; i < 2; i++)
            if (watched[i].revents) {
                long long n = carry(&ways[i]);
                if (n < 0)
                    return -1;
                done += n;
            }
    }
    for (int i = 0; i < 2; i++) {
        close(ways[i].ends[0]);
        close(ways[i].ends[1]);
    }
    return done;
}

/* Two buffers lent to a pipe in turn, never sleeping. */
long long c_lend(int pipe, long a, long b, long size, long long count)
{
    struct iovec buffers[2] = {{(void *)a, size}, {(void *)b, size}};
    long long done = 0;
    for (int turn = 0; done < count; turn ^= 1) {
        struct iovec part = buffers[turn];
        while (part.iov_len && done < count) {
            ssize_t n = vmsplice(pipe, &part, 1, SPLICE_F_NONBLOCK);
            if (n < 0 && errno == EAGAIN)
                continue;
            if (n <= 0)
                return -1;
            part.iov_base = (char *)part.iov_base + n;
            part.iov_len -= n;
            done += n;
        }
    }
    return done;
}

long long c_drain(int pipe, int null, long size, long long count)
{
    long long done = 0;
    while (done < count) {
        ssize_t n = splice(pipe, NULL, null, NULL, size, SPLICE_F_NONBLOCK);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0)
            return -1;
        done += n;
    }
    return done;
}
