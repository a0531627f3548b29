/* What the living ends of a ring do to each other, in small: every scenario holds in both memory models, and
 * an ordering of the protocol that is taken out breaks one (test_ring_explored.py). */
#include "ring_ends.h"

/* -- a writer and a reader, each waiting for the other ------------------------------------------- */

static void prepare_pair(void)
{
    a_ring(1, 1, ZS_RING_BLOCK);
    a_reader(0);
}

static const struct scenario pair = {.name = "pair", .prepare = prepare_pair, .threads = {write_two, read_two}};

/* -- two readers hold the writer up each on its own ----------------------------------------------- */

static void prepare_fan_out(void)
{
    a_ring(1, 1, ZS_RING_BLOCK);
    a_reader(0);
    a_reader(1);
}

static void read_two_as_second(void)
{
    struct zs_ring_reader r = readers[1];
    read_items(&r, 2);
}

static const struct scenario fan_out = {
    .name = "fan-out", .prepare = prepare_fan_out, .threads = {write_two, read_two, read_two_as_second}};

/* -- one reader leaves what it has read; the other was ahead, so the writer goes on ---------------- */

static void prepare_leave(void)
{
    a_ring(1, 1, ZS_RING_BLOCK);
    a_reader(0);
    a_reader(1);
    write_items(&writer, 1);
    readers[1].head = readers[1].next = writer.head;
    zs_reader_release(&readers[1], writer.head, 1);
}

static void look_and_leave(void)
{
    struct zs_ring_reader r = readers[0];
    wait_for(&r, 1);
    look_at(&r);
    zs_reader_leave(&r);
    if (zs_reader_awaited(&r))
        zs_ring_wake_writer(&ring);
}

static const struct scenario leave = {.name = "leave", .prepare = prepare_leave, .threads = {write_two, look_and_leave}};

/* -- one joins while the writer takes room ---------------------------------------------------------- */

static void prepare_join(void)
{
    a_ring(2, 2, ZS_RING_BLOCK);
    a_reader(0);
    write_items(&writer, 2);
    readers[0].next = readers[0].head = writer.head;
    zs_reader_release(&readers[0], writer.head, 2);
}

static void write_to_three(void)
{
    struct zs_ring_writer w = writer;
    write_items(&w, 3);
}

static void join_and_read(int oldest)
{
    struct zs_ring_reader r;
    ex_check(zs_reader_join(&r, &ring, 1, oldest) == 0, "a joiner finds sense in the floor");
    ex_check(zs_reader_observe(&r) == 0, "a joiner finds sense in the head");
    while (r.head != r.next) {
        look_at(&r);
        release(&r, 1);
    }
    if (zs_reader_awaited(&r))
        zs_ring_wake_writer(&ring); /* as zs_reader_open() does, having moved up */
}

static void join_oldest(void) { join_and_read(1); }
static void join_next(void) { join_and_read(0); }

static const struct scenario join_at_oldest = {
    .name = "join-oldest", .prepare = prepare_join, .threads = {write_to_three, join_oldest}};
static const struct scenario join_at_next = {
    .name = "join-next", .prepare = prepare_join, .threads = {write_to_three, join_next}};

/* A slot whose last owner left long ago, far below the floor. */
static void prepare_join_stale(void)
{
    a_ring(1, 1, ZS_RING_BLOCK);
    a_reader(0);
    for (int n = 1; n < 3; n++) {
        write_items(&writer, n);
        readers[0].next = readers[0].head = writer.head;
        zs_reader_release(&readers[0], writer.head, 1);
    }
}

static void look_for_room(void)
{
    struct zs_ring_writer w = writer;
    ex_check(zs_writer_room(&w, 1) >= 0, "the writer finds sense in what readers say");
}

static const struct scenario join_stale = {
    .name = "join-stale", .prepare = prepare_join_stale, .threads = {look_for_room, join_next}};

/* -- a slot is left and taken again ------------------------------------------------------------------- */

static void prepare_rejoin(void)
{
    a_ring(1, 1, ZS_RING_BLOCK);
    a_reader(0);
    slot_lock = 1;
}

static void read_one_and_leave(void)
{
    struct zs_ring_reader r = readers[0];
    read_items(&r, 1);
    zs_reader_leave(&r);
    if (zs_reader_awaited(&r))
        zs_ring_wake_writer(&ring);
    unlock_slot();
}

static void take_the_slot(void)
{
    struct zs_ring_reader r;
    if (!lock_slot())
        return;
    ex_check(zs_reader_join(&r, &ring, 0, 1) == 0, "the next owner finds sense in the slot");
    ex_check(r.taken == 1, "the slot's counts go on");
    read_items(&r, 2);
}

static void write_two_or_stop(void)
{
    struct zs_ring_writer w = writer;
    write_items(&w, 1);
    int rc = zs_writer_room(&w, 1);
    ex_check(rc >= 0, "the writer finds sense in what readers say");
    if (rc == 0)
        rc = zs_writer_doze(&w, 1, 0);
    ex_check(rc >= 0, "the writer finds sense in what readers say");
    while (rc == 0)
        rc = zs_writer_doze(&w, 1, 0);
    ex_write(place_of(&ring, w.head), 8, item(w.head));
    commit(&w, 1);
}

static const struct scenario rejoin = {
    .name = "rejoin", .prepare = prepare_rejoin, .threads = {write_two_or_stop, read_one_and_leave, take_the_slot}};

/* -- the stream ends ------------------------------------------------------------------------------------ */

static void write_two_and_close(void)
{
    struct zs_ring_writer w = writer;
    write_items(&w, 2);
    zs_writer_close(&w);
    zs_writer_wake(&w, zs_writer_dozers(&w), 1);
    zs_writer_leave(&w);
}

static void read_to_the_end(void)
{
    struct zs_ring_reader r = readers[0];
    for (;;) {
        wait_for(&r, 1);
        if (r.head == r.next)
            break; /* ready without an item: the end */
        look_at(&r);
        release(&r, 1);
    }
    ex_check(r.next - FIRST == 2, "the end came before the last item");
}

static const struct scenario end = {
    .name = "end", .prepare = prepare_pair, .threads = {write_two_and_close, read_to_the_end}};

/* -- overwriting ------------------------------------------------------------------------------------------ */

static void prepare_overwrite(void)
{
    a_ring(2, 2, ZS_RING_OVERWRITE);
    a_reader(0);
}

/* Here writer and reader do meet: bytes are stored and loaded as such, and the floor tells. */
static void overwrite_items(struct zs_ring_writer *w, uint64_t until)
{
    while (w->head - FIRST < until) {
        zs_writer_overwrite(w, 1);
        ex_store(EX_SITE(RELAXED, bytes), place_of(&ring, w->head), 8, item(w->head));
        commit(w, 1);
    }
}

static void overwrite_four(void)
{
    struct zs_ring_writer w = writer;
    overwrite_items(&w, 4);
}

static void read_what_is_left(struct zs_ring_reader *r)
{
    int rc;
    ex_check(zs_reader_observe(r) == 0, "the reader finds sense in the head");
    while (r->head != r->next) {
        uint64_t got[2], count = r->next, some = r->head - count < 2 ? 1 : 2;
        for (uint64_t n = 0; n < some; n++)
            got[n] = ex_load(EX_SITE(RELAXED, bytes), place_of(&ring, count + n), 8);
        if (!zs_reader_lapped(r, count)) {
            for (uint64_t n = 0; n < some; n++)
                ex_check(got[n] == item(count + n), "a lapped item was taken for whole");
            r->next += some;
            zs_reader_release(r, r->next, some);
            continue;
        }
        uint64_t missed = zs_reader_catch_up(r, &rc);
        ex_check(rc == 0 && missed > 0, "who was lapped finds where to go on");
        ex_check(!zs_ring_after(r->next, r->head), "who caught up is not ahead of the head");
    }
}

static void read_lapped(void)
{
    struct zs_ring_reader r = readers[0];
    read_what_is_left(&r);
    read_what_is_left(&r);
}

static void join_the_overwritten(void)
{
    struct zs_ring_reader r;
    ex_check(zs_reader_join(&r, &ring, 1, 1) == 0, "a joiner finds sense in the floor");
    read_what_is_left(&r);
}

static const struct scenario overwrite = {
    .name = "overwrite", .prepare = prepare_overwrite, .threads = {overwrite_four, read_lapped}};

static void prepare_overwrite_full(void)
{
    prepare_overwrite();
    overwrite_items(&writer, 2);
}

static void overwrite_five(void)
{
    struct zs_ring_writer w = writer;
    overwrite_items(&w, 5);
}

static const struct scenario overwrite_join = {
    .name = "overwrite-join", .prepare = prepare_overwrite_full, .threads = {overwrite_five, join_the_overwritten}};

const struct scenario *const scenarios[] = {&pair,       &fan_out, &leave, &join_at_oldest, &join_at_next,
                                            &join_stale, &rejoin,  &end,   &overwrite,      &overwrite_join,
                                            NULL};
