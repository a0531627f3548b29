/* A writer and a reader of rings in C, or in C++: ring WORD CONTROL DATA COUNT, with inherited descriptors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

static void need(int64_t rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror((int)-rc));
        exit(1);
    }
}

/* count numbers of 8 bytes, in claims of 1 to 50. */
static void write_items(struct zs_ring *ring, int control, uint64_t count)
{
    struct zs_ring_writer w;
    struct zs_ring_end end;
    need(zs_writer_open(&w, ring, control, &end), "writer");
    for (uint64_t done = 0; done < count;) {
        uint64_t n = 1 + done % 50;
        unsigned char *at;
        if (n > count - done)
            n = count - done;
        need(zs_writer_claim(&w, &end, control, n, INT64_C(10000000000), &at), "claim");
        for (uint64_t i = 0; i < n; i++, done++)
            memcpy(at + 8 * i, &done, 8);
        zs_writer_commit(&w, n);
    }
    zs_writer_finish(&w, &end);
}

static uint64_t read_items(struct zs_ring *ring, int control)
{
    struct zs_ring_reader r;
    struct zs_ring_end end;
    uint64_t sum = 0;
    need(zs_reader_open(&r, ring, control, -1, 1, &end), "reader");
    for (;;) {
        unsigned char *at;
        int64_t got = zs_reader_peek(&r, control, 7, INT64_C(10000000000), &at);
        need(got, "peek");
        if (got == 0)
            break;
        for (int64_t i = 0; i < got; i++) {
            uint64_t item;
            memcpy(&item, at + 8 * i, 8);
            sum = sum * 31 + item;
        }
        zs_reader_done(&r, (uint64_t)got);
    }
    zs_reader_close(&r, &end);
    return sum;
}

/* Message i is i % 100 bytes of value i. */
static void write_messages(struct zs_ring *ring, int control, uint64_t count)
{
    struct zs_ring_writer w;
    struct zs_ring_end end;
    need(zs_writer_open(&w, ring, control, &end), "writer");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = i % 100;
        unsigned char *at;
        need(zs_writer_claim(&w, &end, control, zs_message_span(ring, length), INT64_C(10000000000), &at), "claim");
        memset(zs_message_place(&w, 0, length), (int)i, length);
        zs_message_commit(&w, zs_message_lay(&w, 0, length, length));
    }
    zs_writer_finish(&w, &end);
}

static uint64_t read_messages(struct zs_ring *ring, int control)
{
    struct zs_ring_reader r;
    struct zs_ring_end end;
    uint64_t sum = 0;
    need(zs_reader_open(&r, ring, control, -1, 1, &end), "reader");
    for (;;) {
        unsigned char *at;
        struct zs_message m;
        int64_t got = zs_reader_peek(&r, control, 1, INT64_C(10000000000), &at);
        need(got, "peek");
        if (got == 0)
            break;
        need(zs_message_next(&r, &m), "message");
        for (uint64_t i = 0; i < m.length; i++)
            sum = sum * 31 + m.at[i];
        sum = sum * 31 + m.length;
        zs_message_step(&r, &m);
        zs_reader_give_back(&r, r.next, 1);
    }
    zs_reader_close(&r, &end);
    return sum;
}

int main(int argc, char **argv)
{
    struct zs_ring ring;
    if (argc != 5)
        return 2;
    int control = atoi(argv[2]), data = atoi(argv[3]), writes = strncmp(argv[1], "write", 5) == 0;
    uint64_t count = strtoull(argv[4], NULL, 10), sum = 0;
    int rc = zs_ring_attach(&ring, control, data, writes);
    if (rc < 0) {
        printf("%d\n", rc);
        return 0;
    }
    if (!strcmp(argv[1], "write-items"))
        write_items(&ring, control, count);
    else if (!strcmp(argv[1], "read-items"))
        sum = read_items(&ring, control);
    else if (!strcmp(argv[1], "write-messages"))
        write_messages(&ring, control, count);
    else if (!strcmp(argv[1], "read-messages"))
        sum = read_messages(&ring, control);
    zs_ring_detach(&ring);
    printf("%" PRIu64 "\n", sum);
    return 0;
}
