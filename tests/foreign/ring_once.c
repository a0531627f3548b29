/* Each step reads a number that its peer may change only once: what it checked is what it uses. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *step = "";
static const void *seen[64];
static int count;

static uint64_t once(const void *at, size_t size)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        if (seen[i] == at) {
            printf("%s reads a number twice\n", step);
            exit(1);
        }
    seen[count++] = at;
    memcpy(&value, at, size);
    return value;
}

static void begin(const char *name)
{
    step = name;
    count = 0;
}

#define ZS_RING_LOAD(at, order, sync) ((__typeof__(*(at)))once(at, sizeof *(at)))
#define ZS_RING_STORE(at, value, order, sync) (*(at) = (value))
#define ZS_RING_FENCE(order, sync) ((void)0)
#define ZS_RING_OR(at, bits, order, sync) (*(at) |= (bits))
#define ZS_RING_AND(at, bits, order, sync) (*(at) &= (bits))
#define ZS_RING_SWAP(at, value, order, sync) (*(at) = (value))
#define ZS_RING_CAS(at, before, value, order, sync) (*(at) = (value))
#include "ring.h"

#define SIZE 4096

static void need(int fine)
{
    if (!fine) {
        printf("%s answers wrongly\n", step);
        exit(1);
    }
}

int main(void)
{
    static _Alignas(16) unsigned char control[2048 + 2 * 256], data[2 * SIZE];
    struct zs_ring_control *c = (struct zs_ring_control *)control;
    struct zs_ring ring = {.control = c, .slots = (struct zs_ring_slot *)(c + 1), .data = data, .size = SIZE,
                           .mask = SIZE - 1, .limit = SIZE, .item_size = 1, .count = 2, .kind = ZS_RING_MESSAGES,
                           .on_full = ZS_RING_OVERWRITE};
    struct zs_ring_writer w;
    struct zs_ring_reader r;
    struct zs_message m;
    uint64_t held = 0;
    int rc;

    c->whole_at = UINT64_MAX;
    begin("zs_writer_begin");
    need(zs_writer_begin(&w, &ring) == 0);
    begin("zs_reader_join");
    need(zs_reader_join(&r, &ring, 0, 0) == 0);
    zs_message_commit(&w, zs_message_lay(&w, 0, 100, 100));
    begin("zs_reader_observe");
    need(zs_reader_observe(&r) == 0 && r.head == 128);
    begin("zs_message_next");
    need(zs_message_next(&r, &m) == 0 && m.length == 100 && m.span == 128);
    begin("zs_ring_held");
    need(zs_ring_held(&ring, w.head, w.floor, &held) == 0 && held == 128);
    begin("zs_ring_oldest");
    need(zs_ring_oldest(&ring, &ring.slots[0], 0) == 0);
    begin("zs_message_overwrite");
    need(zs_message_overwrite(&w, SIZE) == 0 && w.floor == 128);
    begin("zs_reader_catch_up");
    need(zs_reader_catch_up(&r, &rc) == 128 && rc == 0);
    zs_message_commit(&w, zs_message_lay(&w, 0, SIZE, SIZE));
    begin("zs_reader_observe");
    need(zs_reader_observe(&r) == 0);
    begin("zs_message_next, as long as the ring");
    need(zs_message_next(&r, &m) == 0 && m.length == SIZE && m.span == SIZE);
    printf("each once\n");
    return 0;
}
