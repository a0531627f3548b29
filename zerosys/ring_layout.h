/* The memory of a ring, to the byte (docs/ring-layout.md): the same in C, C++ and every process.
 *
 * The control file holds one struct zs_ring_control and then the slots. The data file holds
 * `size` bytes, a power of two, which each process maps twice in a row: what straddles the
 * end is contiguous. Counts are 64 bits and wrap; only differences of two counts mean something. */
#ifndef ZEROSYS_RING_LAYOUT_H
#define ZEROSYS_RING_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define ZS_RING_ASSERT(what) static_assert(what, #what)
#else
#define ZS_RING_ASSERT(what) _Static_assert(what, #what)
#endif

#define ZS_RING_MAGIC 0x0a0d676e6972737aULL /* "zsring\r\n", little-endian: another byte order does not match */
#define ZS_RING_VERSION 1
#define ZS_RING_LINE 128 /* two cache lines: the neighbour is prefetched with the one that is asked for */
#define ZS_RING_MOST_SLOTS 64 /* each is a bit of `dozers` */
#define ZS_RING_FORMAT_ROOM 768
#define ZS_RING_MOST_DIMS 7

enum zs_ring_kind { ZS_RING_STREAM = 1, ZS_RING_MESSAGES = 2 };
enum zs_ring_on_full { ZS_RING_BLOCK, ZS_RING_RAISE, ZS_RING_DROP, ZS_RING_OVERWRITE };
enum zs_ring_on_dead { ZS_RING_DEAD_RAISE, ZS_RING_DEAD_EVICT };
enum zs_ring_state { ZS_RING_FREE, ZS_RING_JOINING, ZS_RING_ACTIVE };
enum zs_ring_life { ZS_RING_NOBODY, ZS_RING_BY_LOCK, ZS_RING_BY_PID };

/* What never changes: written by the creator before anybody can attach, checked by whoever does. */
struct zs_ring_header {
    uint64_t magic;
    uint32_t version;
    uint32_t kind;
    uint32_t on_full;
    uint32_t on_dead;
    uint32_t slots;        /* 1 to ZS_RING_MOST_SLOTS */
    uint32_t slots_at;     /* bytes from here to the first slot */
    uint64_t control_size; /* bytes that header, counters and slots take */
    uint64_t size;         /* bytes of data, a power of two */
    uint64_t capacity;     /* bytes that were asked for */
    uint64_t limit;        /* the most that may lie between writer and reader: items, or bytes of records */
    uint64_t item_size;    /* bytes of one count: an item's, and 1 for messages */
    uint64_t start;        /* the first count */
    uint64_t data_device;  /* st_dev and st_ino of the data file: the two belong together */
    uint64_t data_inode;
    uint32_t format_length; /* bytes of format, without a zero */
    uint32_t dims;          /* lengths of an item that is itself an array */
    uint64_t shape[ZS_RING_MOST_DIMS];
    char format[ZS_RING_FORMAT_ROOM]; /* of an item's elements, as PEP 3118 writes it */
    unsigned char unused[1024 - 160 - ZS_RING_FORMAT_ROOM];
};

/* Who has the writer's place or a slot. Only the byte lock proves life; the numbers are for people,
 * and stand in for the lock where it could not be had (ZS_RING_BY_PID). */
struct zs_ring_peer {
    uint32_t life;
    uint32_t pid;
    uint64_t began;      /* start time, as in /proc/pid/stat */
    uint64_t pid_space;  /* inode numbers of its namespaces: pids and times mean nothing in others */
    uint64_t time_space;
};

/* Each group on lines of its own; the comment says who writes it. */
struct zs_ring_control {
    struct zs_ring_header header;

    uint64_t head;     /* writer: what is below it is published */
    uint64_t sequence; /* writer: messages published */
    uint32_t closed;   /* writer: nothing more will come */
    uint32_t pad_head;
    unsigned char line_head[ZS_RING_LINE - 24];

    uint64_t floor;       /* writer: what is below it may be overwritten at any time */
    uint64_t whole_at;    /* writer: where the record begins that has no room for its header */
    uint64_t whole_length;
    uint64_t whole_sequence;
    unsigned char line_floor[ZS_RING_LINE - 32];

    uint64_t dozers; /* readers: one bit each who sleeps; whoever wakes them clears it */
    unsigned char line_dozers[ZS_RING_LINE - 8];

    uint64_t want;   /* writer: the count that readers' tails must reach before it can go on */
    uint32_t doze;   /* writer: 1 while it sleeps; the futex word */
    unsigned char line_doze[ZS_RING_LINE - 12];

    uint32_t state;      /* writer: ZS_RING_ACTIVE while somebody has the place */
    uint32_t pad_state;
    struct zs_ring_peer peer;
    uint64_t lost;       /* writer: items or messages that it dropped */
    uint64_t blocked;    /* writer: nanoseconds that it waited for room */
    uint64_t high_water; /* writer: the most that lay between it and a reader */
    uint64_t evicted;    /* writer: dead readers whose slots it freed */
    unsigned char line_state[512 - 72];
};

struct zs_ring_slot {
    uint64_t tail;       /* reader: what is below it is released */
    uint64_t taken;      /* reader: items or messages released since the slot was first taken */
    uint64_t lost;       /* reader: items or messages overwritten before it read them */
    uint64_t high_water; /* reader: the most that it saw waiting */
    unsigned char line_tail[ZS_RING_LINE - 32];

    uint64_t want;    /* reader: the count that head must reach before it can go on */
    uint32_t doze;    /* reader: 1 while it sleeps; the futex word */
    uint32_t state;   /* reader: enum zs_ring_state */
    uint64_t blocked; /* reader: nanoseconds that it waited */
    struct zs_ring_peer peer;
    unsigned char line_want[ZS_RING_LINE - 56];
};

/* A message's record: this header, the bytes, and padding to a multiple of it. */
struct zs_ring_record {
    uint64_t length;
    uint64_t sequence; /* of the message, from 0 on */
};

ZS_RING_ASSERT(sizeof(struct zs_ring_header) == 1024);
ZS_RING_ASSERT(offsetof(struct zs_ring_header, slots) == 24);
ZS_RING_ASSERT(offsetof(struct zs_ring_header, size) == 40);
ZS_RING_ASSERT(offsetof(struct zs_ring_header, format_length) == 96);
ZS_RING_ASSERT(offsetof(struct zs_ring_header, shape) == 104);
ZS_RING_ASSERT(offsetof(struct zs_ring_header, format) == 160);
ZS_RING_ASSERT(offsetof(struct zs_ring_control, head) == 1024);
ZS_RING_ASSERT(offsetof(struct zs_ring_control, floor) == 1152);
ZS_RING_ASSERT(offsetof(struct zs_ring_control, dozers) == 1280);
ZS_RING_ASSERT(offsetof(struct zs_ring_control, want) == 1408);
ZS_RING_ASSERT(offsetof(struct zs_ring_control, state) == 1536);
ZS_RING_ASSERT(sizeof(struct zs_ring_control) == 2048);
ZS_RING_ASSERT(offsetof(struct zs_ring_slot, want) == 128);
ZS_RING_ASSERT(sizeof(struct zs_ring_slot) == 256);
ZS_RING_ASSERT(sizeof(struct zs_ring_record) == 16);

#endif
