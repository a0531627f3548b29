/* One owner of a place leaves it, or dies at any of its steps, and another goes on. */
#include "ring_ends.h"

/* -- a reader dies: evicted, or its slot taken by another, who gets what it had not released --------------- */

static void prepare_evict(void)
{
    a_ring(1, 1, ZS_RING_BLOCK);
    a_reader(0);
    slot_lock = 1;
}

static bool inherit_slot(void)
{
    if (ex_alive(1))
        return false;
    return ex_exchange(EX_SITE(SEQ_CST, kernel), &slot_lock, 4, 2) == 1;
}

static void write_two_evicting(void)
{
    struct zs_ring_writer w = writer;
    while (w.head - FIRST < 2) {
        int rc = zs_writer_room(&w, 1);
        while (rc == 0) {
            rc = zs_writer_doze(&w, 1, 0);
            if (rc == 0 && inherit_slot())
                zs_ring_evict(&ring, &ring.slots[0]);
            else if (rc == 0 && !ex_alive(1))
                return; /* its heir reads on, or not: not our question */
        }
        ex_check(rc == 1, "the writer finds sense in what readers say");
        ex_write(place_of(&ring, w.head), 8, item(w.head));
        commit(&w, 1);
        if (!ex_alive(1) && inherit_slot())
            zs_ring_evict(&ring, &ring.slots[0]);
    }
}

static const struct scenario evict = {
    .name = "evict", .prepare = prepare_evict, .threads = {write_two_evicting, read_two}, .killable = 1 << 1};

static uint64_t released_by_the_dead(void) { return ex_load(EX_SITE(RELAXED, none), &ring.slots[0].tail, 8); }

static void prepare_takeover(void)
{
    prepare_evict();
    write_items(&writer, 1);
}

static void take_over(void)
{
    struct zs_ring_reader r;
    if (!inherit_slot())
        return;
    uint64_t tail = released_by_the_dead();
    ex_check(zs_reader_join(&r, &ring, 0, 0) == 0, "the heir finds sense in the slot");
    ex_check(r.next == tail, "the heir begins after what was released");
    read_items(&r, 2);
}

static const struct scenario takeover = {.name = "takeover",
                                         .prepare = prepare_takeover,
                                         .threads = {write_two, read_two, take_over},
                                         .killable = 1 << 1};

/* -- a writer dies, and another goes on --------------------------------------------------------------------- */

static void write_one(void)
{
    struct zs_ring_writer w = writer;
    write_items(&w, 1);
}

static void write_on(void)
{
    struct zs_ring_writer w;
    if (ex_alive(0))
        return;
    ex_check(zs_writer_begin(&w, &ring) == 0, "the next writer finds sense in the ring");
    write_items(&w, 1);
}

static void read_what_comes(void)
{
    struct zs_ring_reader r = readers[0];
    while (r.next - FIRST < 1) {
        int rc = zs_reader_ready(&r, 1);
        if (rc == 0)
            rc = zs_reader_doze(&r, 1, 0);
        ex_check(rc >= 0, "the reader finds sense in what writers say");
        if (rc == 0 && !ex_alive(0) && (rc = zs_reader_ready(&r, 1)) == 0)
            return; /* PeerDead, unless somebody writes on */
        if (rc == 1) {
            look_at(&r);
            release(&r, 1);
        }
    }
}

static void prepare_heir(void)
{
    a_ring(1, 1, ZS_RING_BLOCK);
    a_reader(0);
}

static const struct scenario heir = {.name = "heir",
                                     .prepare = prepare_heir,
                                     .threads = {write_one, read_what_comes, write_on},
                                     .killable = 1 << 0};

/* -- a writer leaves, and another goes on: by the kernel's lock, or where there is none by the state alone -- */

static void a_second_writer(struct zs_ring_writer *w)
{
    ex_check(zs_writer_begin(w, &ring) == 0, "the next writer finds sense in the ring");
    ex_check(w->head == FIRST + 1, "the next writer does not know what the last one published");
}

static void write_one_and_leave(void)
{
    struct zs_ring_writer w = writer;
    write_items(&w, 1);
    zs_writer_leave(&w);
    unlock_slot();
}

static void take_by_state(void)
{
    struct zs_ring_writer w;
    uint32_t state = ZS_RING_LOAD(&memory.control.state, ACQUIRE, kernel); /* as zs_ring_take() */
    if (state == ZS_RING_FREE)
        a_second_writer(&w);
}

static void take_by_state_and_leave(void)
{
    struct zs_ring_writer w;
    if (ZS_RING_LOAD(&memory.control.state, ACQUIRE, kernel) == ZS_RING_FREE) {
        a_second_writer(&w);
        zs_writer_leave(&w);
    }
}

static const struct scenario handover = {
    .name = "handover",
    .prepare = prepare_heir,
    .threads = {write_one_and_leave, take_by_state_and_leave, take_by_state}};

static void close_as_second(void)
{
    struct zs_ring_writer w;
    if (!lock_slot())
        return;
    a_second_writer(&w);
    zs_writer_close(&w);
}

static void look_for_the_end(void)
{
    struct zs_ring_reader r = readers[0];
    if (zs_reader_ready(&r, 1) == 1)
        ex_check(r.head == FIRST + 1, "the end came before the last item");
}

static void prepare_second(void)
{
    prepare_heir();
    slot_lock = 1;
}

static const struct scenario end_by_second = {
    .name = "end-by-second",
    .prepare = prepare_second,
    .threads = {write_one_and_leave, close_as_second, look_for_the_end}};

static void prepare_overwriting_second(void)
{
    a_ring(1, 1, ZS_RING_OVERWRITE);
    a_reader(0);
    slot_lock = 1;
}

static void overwrite_as_second(void)
{
    struct zs_ring_writer w;
    if (!lock_slot())
        return;
    a_second_writer(&w);
    zs_writer_overwrite(&w, 1);
}

static void catch_up(void)
{
    struct zs_ring_reader r = readers[0];
    int rc;
    zs_reader_catch_up(&r, &rc);
    ex_check(rc == 0, "who was lapped finds where to go on");
}

static const struct scenario overwrite_by_second = {
    .name = "overwrite-by-second",
    .prepare = prepare_overwriting_second,
    .threads = {write_one_and_leave, overwrite_as_second, catch_up}};

const struct scenario *const scenarios[] = {&evict,         &takeover,            &heir, &handover,
                                            &end_by_second, &overwrite_by_second, NULL};
