/* Messages in a ring: a record's header goes where the writer of bytes and their reader meet. */
#include "ring_ends.h"

/* -- messages: the header is data too; one as long as the ring has its header elsewhere --------------------- */

static void prepare_messages(void)
{
    ring = ring_of(4, 32, ZS_RING_MESSAGES, ZS_RING_BLOCK); /* 32 bytes */
    /* Counts are bytes here, and records of 16: begin where one does. */
    memory.control.head = memory.control.floor = 0 - (uint64_t)16;
    memory.slots[0].tail = memory.slots[1].tail = 0 - (uint64_t)16;
    ex_check(zs_writer_begin(&writer, &ring) == 0, "the writer begins");
    a_reader(0);
}

static const uint64_t lengths[] = {8, 32, 8};

static void write_messages(void)
{
    struct zs_ring_writer w = writer;
    for (uint64_t n = 0; n < 3; n++) {
        uint64_t span = zs_message_span(&ring, lengths[n]);
        int rc = zs_writer_room(&w, span);
        while (rc == 0)
            rc = zs_writer_doze(&w, span, 0);
        ex_check(rc == 1, "the writer finds sense in what readers say");
        uint64_t *at = (uint64_t *)zs_message_place(&w, 0, lengths[n]);
        for (uint64_t word = 0; word < lengths[n] / 8; word += 3)
            ex_write(at + word, 8, 10 * n + word);
        zs_message_publish(&w, zs_message_lay(&w, 0, lengths[n], lengths[n]));
        uint64_t dozers = zs_writer_dozers(&w);
        if (dozers)
            zs_writer_wake(&w, dozers, 0);
    }
}

static void read_messages(void)
{
    struct zs_ring_reader r = readers[0];
    struct zs_message m = {0};
    for (uint64_t n = 0; n < 3; n++) {
        wait_for(&r, 1);
        ex_check(zs_message_next(&r, &m) == 0, "the reader finds sense in a record");
        ex_check(m.length == lengths[n] && m.sequence == n, "a message is another");
        for (uint64_t word = 0; word < lengths[n] / 8; word += 3)
            ex_check(ex_read((uint64_t *)m.at + word, 8) == 10 * n + word, "a message is torn");
        ex_check(zs_message_step(&r, &m) == 0, "no message is missing");
        zs_reader_release(&r, r.next, 1);
        if (zs_reader_awaited(&r))
            zs_reader_wake(&r);
    }
}

static const struct scenario messages = {
    .name = "messages", .prepare = prepare_messages, .threads = {write_messages, read_messages}};

/* Who joins at the next message counts none as lost. */
static void write_two_messages(void)
{
    struct zs_ring_writer w = writer;
    for (uint64_t n = 0; n < 2; n++) {
        ex_check(zs_message_overwrite(&w, 16) == 0, "the writer finds sense in its own records");
        zs_message_publish(&w, zs_message_lay(&w, 0, 0, 0));
        zs_writer_dozers(&w);
    }
}

static void join_and_count(void)
{
    struct zs_ring_reader r;
    struct zs_message m = {0};
    ex_check(zs_reader_join(&r, &ring, 0, 0) == 0, "a joiner finds sense in the ring");
    ex_check(zs_reader_observe(&r) == 0, "a joiner finds sense in the head");
    while (r.head != r.next) {
        ex_check(zs_message_next(&r, &m) == 0, "the reader finds sense in a record");
        ex_check(zs_message_step(&r, &m) == 0, "a message that never was counts as lost");
    }
}

static void prepare_no_reader(void)
{
    prepare_messages();
    zs_reader_leave(&readers[0]);
    ring.on_full = writer.ring.on_full = ZS_RING_OVERWRITE; /* where readers count what they missed */
}

static const struct scenario join_messages = {
    .name = "join-messages", .prepare = prepare_no_reader, .threads = {write_two_messages, join_and_count}};

const struct scenario *const scenarios[] = {&messages, &join_messages, NULL};
