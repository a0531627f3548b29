/* The C of zerosys without Python, as another machine would run it: prints "ok", or says what went wrong.
 *
 * Built for other processors and C libraries by tools/core.py, and run there by an emulator. An emulator
 * keeps the order of its host's memory: this proves that the code builds and counts right, no more. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "_memfd.h"
#include "_transfer.h"
#include "_transfer_wait.h"
#include "ring.h"

#define ITEMS 10000
#define SIZE (300 << 10)

static void need(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "core: %s (errno %d)\n", what, errno);
    exit(1);
}

static int shared(const char *name, size_t size)
{
    int fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    need(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd_create");
    need(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "sealing");
    return fd;
}

/* A file to a socket, whose other end counts: every byte arrives, none through a buffer. */
static void carry(void)
{
    int file = shared("source", SIZE), ends[2];
    unsigned char *bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(bytes != MAP_FAILED, "mmap");
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t reader = fork();
    need(reader >= 0, "fork");
    if (reader == 0) {
        unsigned char got[4096];
        size_t at = 0;
        close(ends[0]);
        for (ssize_t n; (n = read(ends[1], got, sizeof got)) > 0; at += (size_t)n)
            for (ssize_t i = 0; i < n; i++)
                if (got[i] != bytes[at + (size_t)i])
                    _exit(2);
        _exit(at == SIZE ? 0 : 3);
    }
    close(ends[1]);
    struct zs_transfer t = {.pipe = {-1, -1}, .touch_flags = 1, .left = SIZE, .pipe_wish = 1 << 20, .stall = -1};
    need(zs_end_open(&t.src, file, 0) >= 0 && zs_end_open(&t.dst, ends[0], -1) >= 0, "zs_end_open");
    need(zs_transfer_open(&t) >= 0 && zs_transfer_begin(&t) >= 0, "zs_transfer_open");
    int rc;
    do
        rc = zs_transfer_drive(&t, -1);
    while (rc == ZS_WORKING);
    need(rc == ZS_DONE && t.moved == SIZE && !t.copied && !t.stranded, "a transfer moves all, and copies nothing");
    zs_transfer_close(&t);
    close(ends[0]);
    int status;
    need(waitpid(reader, &status, 0) == reader && status == 0, "the reader has the same bytes");
    close(file);
}

/* A ring from this process to a child, smaller than what goes through it: the sum is right. */
static void stream(void)
{
    struct zs_ring_header header = {.kind = ZS_RING_STREAM, .slots = 1, .size = 4096, .capacity = 4096,
                                    .limit = 512, .item_size = 8, .start = UINT64_MAX - 2};
    int control = shared("control", 4096), data = shared("data", 4096);
    struct stat about;
    need(fstat(data, &about) == 0, "fstat");
    header.data_device = about.st_dev;
    header.data_inode = about.st_ino;
    struct zs_ring_control *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);
    need(at != MAP_FAILED, "mmap");
    zs_ring_format(at, &header);
    struct zs_ring ring;
    struct zs_ring_end end;
    unsigned char *place;
    pid_t reader = fork();
    need(reader >= 0, "fork");
    need(zs_ring_attach(&ring, control, data, reader != 0) == 0, "zs_ring_attach");
    if (reader == 0) {
        struct zs_ring_reader r;
        uint64_t sum = 0, count = 0;
        int64_t n;
        need(zs_reader_open(&r, &ring, control, -1, 1, &end) == 0, "zs_reader_open");
        while ((n = zs_reader_peek(&r, control, 32, 20000000000, &place)) > 0) {
            for (int64_t i = 0; i < n; i++)
                sum += ((uint64_t *)place)[i];
            count += (uint64_t)n;
            zs_reader_done(&r, (uint64_t)n);
        }
        zs_reader_close(&r, &end);
        _exit(n == 0 && count == ITEMS && sum == (uint64_t)ITEMS * (ITEMS - 1) / 2 ? 0 : 4);
    }
    struct zs_ring_writer w;
    need(zs_writer_open(&w, &ring, control, &end) == 0, "zs_writer_open");
    for (uint64_t i = 0; i < ITEMS; i++) {
        need(zs_writer_claim(&w, &end, control, 1, 20000000000, &place) == 1, "zs_writer_claim");
        *(uint64_t *)place = i;
        zs_writer_commit(&w, 1);
    }
    zs_writer_finish(&w, &end);
    int status;
    need(waitpid(reader, &status, 0) == reader && status == 0, "the reader sums all items");
    zs_ring_detach(&ring);
}

int main(void)
{
    carry();
    stream();
    puts("ok");
    return 0;
}
