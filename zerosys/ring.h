/* A ring in shared memory: one writer, up to 64 readers, in any processes and languages.
 *
 *     struct zs_ring ring;              // of two descriptors that arrived, or shm_open("/NAME") and ("/NAME.data")
 *     struct zs_ring_end end;
 *     struct zs_ring_writer w;
 *     unsigned char *at;
 *     zs_ring_attach(&ring, control_fd, data_fd, 1);
 *     zs_writer_open(&w, &ring, control_fd, &end);
 *     if (zs_writer_claim(&w, &end, control_fd, n, -1, &at) > 0) {          // n items; ns to wait, -1 for ever
 *         fill(at);
 *         zs_writer_commit(&w, n);
 *     }
 *     zs_writer_finish(&w, &end);
 *
 *     struct zs_ring_reader r;          // in another process, which attached with 0: it only reads the data
 *     zs_reader_open(&r, &ring, control_fd, -1, 1, &end);
 *     while ((got = zs_reader_peek(&r, control_fd, n, 1000000000, &at)) > 0) {   // 0 at the stream's end
 *         use(at, got);
 *         zs_reader_done(&r, got);
 *     }
 *     zs_reader_close(&r, &end);
 *
 * Build as C11 or C++17 and -D_GNU_SOURCE, -I as zerosys.get_include() says, #include "ring.h".
 * Functions return 0 or more, or -errno: EPROTO (the shared memory says what no honest peer
 * writes), EAGAIN (no room; no such place), ETIMEDOUT, EINTR, EOWNERDEAD (the peer died).
 * Nothing here prints, exits or allocates. */
#ifndef ZEROSYS_RING_H
#define ZEROSYS_RING_H

#ifndef _GNU_SOURCE
#error "ring.h needs -D_GNU_SOURCE: locks of open file descriptions are Linux's own"
#endif

#include <sys/mman.h>

#include "ring_message.h"
#include "ring_peer.h"
#include "ring_protocol.h"
#include "ring_wait.h"

#define ZS_RING_SPIN 20000        /* ns that a wait looks before it sleeps */
#define ZS_RING_SLICE 100000000 /* ns that it sleeps before it looks whether its peer lives */

/* What an end of the ring holds beside the memory: its place, and the description with its lock. */
struct zs_ring_end {
    int own_fd; /* -1 where the control file could not be reopened */
    uint32_t place;
};

/* -- made and checked ------------------------------------------------------------------------------ */

static inline uint64_t zs_ring_control_size(uint32_t slots)
{
    return sizeof(struct zs_ring_control) + slots * (uint64_t)sizeof(struct zs_ring_slot);
}

/* Make zeroed control memory a ring: `header` says all but magic, version and sizes. The magic comes last. */
static inline void zs_ring_format(struct zs_ring_control *control, const struct zs_ring_header *header)
{
    struct zs_ring_slot *slots = (struct zs_ring_slot *)(control + 1);
    control->header = *header;
    control->header.version = ZS_RING_VERSION;
    control->header.slots_at = sizeof *control;
    control->header.control_size = zs_ring_control_size(header->slots);
    control->head = control->floor = header->start;
    control->whole_at = header->start - 1; /* where no record will begin */
    for (uint32_t i = 0; i < header->slots; i++)
        slots[i].tail = header->start;
    ZS_RING_STORE(&control->header.magic, ZS_RING_MAGIC, RELEASE, none);
}

/* Take a header's word only for what fits: NULL, or what is wrong with it. *ring has no data yet. */
static inline const char *zs_ring_check(struct zs_ring_control *control, uint64_t control_bytes, uint64_t data_bytes,
                                        struct zs_ring_header *h, struct zs_ring *ring)
{
    if (control_bytes < sizeof *control)
        return "the control file is too short";
    memcpy(h, &control->header, sizeof *h); /* once: a peer may change it under us */
    if (h->magic != ZS_RING_MAGIC)
        return h->magic ? "the magic number is wrong" : "the header is not written yet";
    if (h->version != ZS_RING_VERSION)
        return "the version is another";
    if (h->kind < ZS_RING_STREAM || h->kind > ZS_RING_MESSAGES || h->on_full > ZS_RING_OVERWRITE ||
        h->on_dead > ZS_RING_DEAD_EVICT)
        return "kind, on_full or on_dead is unknown";
    if (!h->slots || h->slots > ZS_RING_MOST_SLOTS || h->slots_at != sizeof *control ||
        h->control_size != zs_ring_control_size(h->slots) || h->control_size > control_bytes)
        return "the slots do not fit the control file";
    if (h->size < 4096 || h->size & (h->size - 1) || h->size > data_bytes || h->size > 1ULL << 61)
        return "the size is no power of two, or more than the data file has";
    if (!h->item_size || h->item_size > h->size || !h->limit || h->limit > h->size / h->item_size ||
        (h->kind == ZS_RING_MESSAGES && (h->item_size != 1 || h->limit % ZS_RECORD || h->start % ZS_RECORD)))
        return "the items do not fit the data";
    if (!h->capacity || (h->kind == ZS_RING_MESSAGES && h->capacity > h->size) || h->format_length > ZS_RING_FORMAT_ROOM || h->dims > ZS_RING_MOST_DIMS)
        return "capacity, format or shape is out of bounds";
    memset(ring, 0, sizeof *ring);
    ring->control = control;
    ring->slots = (struct zs_ring_slot *)(control + 1);
    ring->size = h->size;
    ring->mask = h->size - 1;
    ring->limit = h->limit;
    ring->item_size = h->item_size;
    ring->start = h->start;
    ring->count = h->slots;
    ring->kind = h->kind;
    ring->on_full = h->on_full;
    ring->on_dead = h->on_dead;
    return NULL;
}

/* -- for C and C++: map, and unmap ------------------------------------------------------------------- */

/* Map size bytes of a file twice in a row. */
static inline int zs_ring_mirror(int fd, uint64_t size, int protection, unsigned char **at)
{
    char *room = (char *)mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return -errno;
    if (mmap(room, size, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
        mmap(room + size, size, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int error = errno;
        munmap(room, 2 * size);
        return -error;
    }
    *at = (unsigned char *)room;
    return 0;
}

static inline void zs_ring_detach(struct zs_ring *ring)
{
    uint64_t control_size = zs_ring_control_size(ring->count);
    if (ring->data)
        munmap(ring->data, 2 * ring->size);
    if (ring->control)
        munmap(ring->control, control_size);
    memset(ring, 0, sizeof *ring);
}

/* Map the ring behind two descriptors, which stay the caller's; data for writing too if asked. Base
 * pages. -EAGAIN for a ring that its creator has not finished, -EPROTO for what is none. */
static inline int zs_ring_attach(struct zs_ring *ring, int control_fd, int data_fd, int writable)
{
    struct stat control, data;
    struct zs_ring_header header;
    const char *wrong;
    int rc;
    memset(ring, 0, sizeof *ring);
    if (fstat(control_fd, &control) < 0 || fstat(data_fd, &data) < 0)
        return -errno;
    if ((uint64_t)control.st_size < sizeof(struct zs_ring_control))
        return control.st_size ? -EPROTO : -EAGAIN;
    void *at = mmap(NULL, (size_t)control.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, control_fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    wrong = zs_ring_check((struct zs_ring_control *)at, (uint64_t)control.st_size, (uint64_t)data.st_size, &header, ring);
    if (!wrong && (header.data_device != data.st_dev || header.data_inode != data.st_ino))
        wrong = "the data file is another ring's";
    rc = !wrong ? zs_ring_mirror(data_fd, ring->size, writable ? PROT_READ | PROT_WRITE : PROT_READ, &ring->data)
         : header.magic ? -EPROTO : -EAGAIN;
    if (rc < 0) {
        munmap(at, (size_t)control.st_size);
        memset(ring, 0, sizeof *ring);
    }
    return rc;
}

/* -- places ------------------------------------------------------------------------------------------ */

static inline int zs_ring_enter(int control_fd, struct zs_ring_end *end)
{
    end->own_fd = zs_ring_reopen(control_fd);
    return end->own_fd == -EMFILE || end->own_fd == -ENFILE || end->own_fd == -ENOMEM ? end->own_fd : 0;
}

static inline void zs_ring_exit(struct zs_ring_end *end)
{
    if (end->own_fd >= 0)
        close(end->own_fd);
    end->own_fd = -1;
}

/* Become the writer: -EAGAIN while somebody else is, -EPIPE once the stream has ended. */
static inline int zs_writer_open(struct zs_ring_writer *w, const struct zs_ring *ring, int control_fd, struct zs_ring_end *end)
{
    struct zs_ring_control *control = ring->control;
    int rc = zs_ring_enter(control_fd, end);
    end->place = ZS_RING_WRITER_PLACE;
    if (rc < 0)
        return rc;
    rc = zs_ring_take(control_fd, end->own_fd, end->place, &control->peer, &control->state);
    if (rc == 0 && ZS_RING_LOAD(&control->closed, ACQUIRE, end)) {
        ZS_RING_STORE(&control->state, ZS_RING_FREE, RELEASE, slot);
        rc = -EPIPE;
    }
    if (rc == 0)
        rc = zs_writer_begin(w, ring);
    if (rc < 0)
        zs_ring_exit(end);
    return rc;
}

/* Leave the place without ending the stream: another writer may go on. */
static inline void zs_writer_give_up(struct zs_ring_writer *w, struct zs_ring_end *end)
{
    zs_writer_leave(w);
    zs_ring_exit(end);
}

/* End the stream, wake every reader, and leave. */
static inline void zs_writer_finish(struct zs_ring_writer *w, struct zs_ring_end *end)
{
    zs_writer_close(w);
    zs_writer_wake(w, zs_writer_dozers(w), 1);
    zs_writer_give_up(w, end);
}

/* Take slot i, or with i < 0 any: first one whose reader died, whose stream then goes on. */
static inline int zs_reader_open(struct zs_ring_reader *r, const struct zs_ring *ring, int control_fd, int i, int oldest,
                                 struct zs_ring_end *end)
{
    int rc = zs_ring_enter(control_fd, end);
    if (rc < 0)
        return rc;
    rc = -EAGAIN;
    for (int free = 0; free < 2 && rc == -EAGAIN; free++)
        for (uint32_t k = i < 0 ? 0 : (uint32_t)i; k < ring->count && rc == -EAGAIN; k = i < 0 ? k + 1 : ring->count) {
            struct zs_ring_slot *slot = &ring->slots[k];
            if ((ZS_RING_LOAD(&slot->state, RELAXED, none) == ZS_RING_FREE) != free)
                continue;
            end->place = 1 + k;
            rc = zs_ring_take(control_fd, end->own_fd, end->place, &slot->peer, &slot->state);
            if (rc == 0)
                rc = zs_reader_join(r, ring, k, oldest);
            /* The writer may have gone to sleep for our first tail, from which we have moved up. */
            if (rc == 0 && zs_reader_awaited(r))
                zs_ring_wake_writer(ring);
        }
    if (rc < 0)
        zs_ring_exit(end);
    return rc;
}

/* Free the slot; what was not released is not kept for anybody. */
static inline void zs_reader_close(struct zs_ring_reader *r, struct zs_ring_end *end)
{
    zs_reader_leave(r);
    if (zs_reader_awaited(r))
        zs_ring_wake_writer(&r->ring);
    zs_ring_exit(end);
}

/* Look for readers that died and keep n counts from the writer: how many were evicted (if it may), or 0;
 * else -EOWNERDEAD for slot *which. */
static inline int zs_writer_look(struct zs_ring_writer *w, int control_fd, int own_fd, uint64_t n, int evict, uint32_t *which)
{
    struct zs_ring_control *control = w->ring.control;
    uint64_t want = w->head + n - w->ring.limit;
    int evicted = 0;
    for (uint32_t i = 0; i < w->ring.count; i++) {
        struct zs_ring_slot *slot = &w->ring.slots[i];
        if (ZS_RING_LOAD(&slot->state, ACQUIRE, slot) == ZS_RING_FREE ||
            !zs_ring_after(want, ZS_RING_LOAD(&slot->tail, ACQUIRE, space)) ||
            zs_ring_lives(control_fd, 1 + i, &slot->peer) != ZS_RING_DEAD)
            continue;
        *which = i;
        if (!evict)
            return -EOWNERDEAD;
        if (own_fd >= 0 && zs_ring_lock(own_fd, 1 + i) < 0)
            continue; /* somebody took it meanwhile */
        zs_ring_evict(&w->ring, slot);
        if (own_fd >= 0)
            zs_ring_unlock(own_fd, 1 + i);
        ZS_RING_STORE(&control->evicted, ZS_RING_LOAD(&control->evicted, RELAXED, none) + 1, RELAXED, none);
        evicted++;
    }
    return evicted;
}

/* Whether the writer died: not while nobody has come yet, nor after one left. */
static inline int zs_reader_orphaned(struct zs_ring_reader *r, int control_fd)
{
    struct zs_ring_control *control = r->ring.control;
    return ZS_RING_LOAD(&control->state, ACQUIRE, slot) != ZS_RING_FREE &&
           zs_ring_lives(control_fd, ZS_RING_WRITER_PLACE, &control->peer) == ZS_RING_DEAD;
}

/* Give back everything below count, in which n items or messages were, and wake the writer if it waits. */
static inline void zs_reader_give_back(struct zs_ring_reader *r, uint64_t count, uint64_t n)
{
    zs_reader_release(r, count, n);
    if (zs_reader_awaited(r))
        zs_reader_wake(r);
}

/* Count what was overwritten before it was read. */
static inline void zs_reader_lose(struct zs_ring_reader *r, uint64_t n)
{
    r->lost += n;
    ZS_RING_STORE(&r->slot->lost, r->lost, RELAXED, none);
}

/* -- one call each: what a C program needs -------------------------------------------------------------- */

/* Wait for room for n counts: 1 and where they go, or -errno. timeout in ns, -1 for ever. */
static inline int zs_writer_claim(struct zs_ring_writer *w, const struct zs_ring_end *end, int control_fd, uint64_t n,
                                  int64_t timeout, unsigned char **at)
{
    int64_t until = timeout < 0 ? 0 : zs_ring_clock() + timeout;
    uint32_t which;
    int rc = n > w->ring.limit ? -EMSGSIZE : 1;
    if (rc > 0 && w->ring.on_full == ZS_RING_OVERWRITE) {
        if (w->ring.kind == ZS_RING_MESSAGES)
            rc = zs_message_overwrite(w, n);
        else
            zs_writer_overwrite(w, n);
    } else if (rc > 0 && (rc = zs_writer_room(w, n)) == 0 && w->ring.on_full != ZS_RING_BLOCK)
        rc = -EAGAIN;
    if (rc == 0 && w->ring.on_full == ZS_RING_BLOCK)
        rc = zs_writer_spin(w, n, ZS_RING_SPIN);
    while (rc == 0 && w->ring.on_full == ZS_RING_BLOCK) {
        int64_t left = timeout < 0 ? ZS_RING_SLICE : until - zs_ring_clock();
        if (left <= 0)
            return -ETIMEDOUT;
        if ((rc = zs_writer_doze(w, n, left < ZS_RING_SLICE ? left : ZS_RING_SLICE)) == 0)
            rc = zs_writer_look(w, control_fd, end->own_fd, n, w->ring.on_dead == ZS_RING_DEAD_EVICT, &which) < 0
                     ? -EOWNERDEAD
                     : zs_writer_room(w, n);
    }
    if (rc < 0)
        return rc;
    *at = zs_ring_at(&w->ring, w->head);
    return 1;
}

/* Publish n counts (items), and wake who waits for them. */
static inline void zs_writer_commit(struct zs_ring_writer *w, uint64_t n)
{
    zs_writer_publish(w, n);
    uint64_t dozers = zs_writer_dozers(w);
    if (dozers)
        zs_writer_wake(w, dozers, 0);
}

/* Wait for n counts: how many there are (fewer only at the end, 0 after it), and where; or -errno. */
static inline int64_t zs_reader_peek(struct zs_ring_reader *r, int control_fd, uint64_t n, int64_t timeout, unsigned char **at)
{
    int64_t until = timeout < 0 ? 0 : zs_ring_clock() + timeout;
    int rc = n > r->ring.limit ? -EMSGSIZE : zs_reader_ready(r, n);
    if (rc == 0)
        rc = zs_reader_spin(r, n, ZS_RING_SPIN);
    while (rc == 0) {
        int64_t left = timeout < 0 ? ZS_RING_SLICE : until - zs_ring_clock();
        if (left <= 0)
            return -ETIMEDOUT;
        if ((rc = zs_reader_doze(r, n, left < ZS_RING_SLICE ? left : ZS_RING_SLICE)) == 0 &&
            zs_reader_orphaned(r, control_fd) && (rc = zs_reader_ready(r, n)) == 0)
            return -EOWNERDEAD;
    }
    if (rc < 0)
        return rc;
    *at = zs_ring_at(&r->ring, r->next);
    uint64_t waiting = r->head - r->next;
    return (int64_t)(waiting < n ? waiting : n);
}

/* Give n counts (items) back, and wake the writer if it waits for them. */
static inline void zs_reader_done(struct zs_ring_reader *r, uint64_t n)
{
    r->next += n;
    zs_reader_give_back(r, r->next, n);
}

/* Publish messages that were laid, and wake who waits for them. */
static inline void zs_message_commit(struct zs_ring_writer *w, uint64_t span)
{
    zs_message_publish(w, span);
    uint64_t dozers = zs_writer_dozers(w);
    if (dozers)
        zs_writer_wake(w, dozers, 0);
}

#endif
