/* Messages in a ring of bytes: each is a record, a header and then the bytes, padded. */
#ifndef ZEROSYS_RING_MESSAGE_H
#define ZEROSYS_RING_MESSAGE_H

#include "ring_protocol.h"

#define ZS_RECORD ((uint64_t)sizeof(struct zs_ring_record))

struct zs_message {
    unsigned char *at; /* the bytes, in the ring */
    uint64_t length;
    uint64_t sequence;
    uint64_t span; /* counts that the record takes */
};

/* The counts that the record of length bytes takes. One that leaves no room for its header takes
 * the whole ring, and its header stands in the control block: so a message may be as long as the ring. */
static inline uint64_t zs_message_span(const struct zs_ring *ring, uint64_t length)
{
    uint64_t span = ((length + ZS_RECORD - 1) & ~(ZS_RECORD - 1)) + ZS_RECORD;
    return span > ring->size ? ring->size : span;
}

static inline int zs_message_is_whole(const struct zs_ring *ring, uint64_t length)
{
    return length > ring->size - ZS_RECORD;
}

/* Where the bytes of a message of up to length bytes go, `ahead` counts after what is published. */
static inline unsigned char *zs_message_place(struct zs_ring_writer *w, uint64_t ahead, uint64_t length)
{
    return zs_ring_at(&w->ring, w->head + ahead) + (zs_message_is_whole(&w->ring, length) ? 0 : ZS_RECORD);
}

/* Finish, and do not publish, the record of length bytes that lie there, where room for `claimed` bytes
 * was claimed. Returns its span. */
static inline uint64_t zs_message_lay(struct zs_ring_writer *w, uint64_t ahead, uint64_t claimed, uint64_t length)
{
    struct zs_ring_control *control = w->ring.control;
    uint64_t sequence = w->sequence++;
    if (zs_message_is_whole(&w->ring, claimed)) {
        ZS_RING_STORE(&control->whole_at, w->head + ahead, RELAXED, data);
        ZS_RING_STORE(&control->whole_length, length, RELAXED, data);
        ZS_RING_STORE(&control->whole_sequence, sequence, RELAXED, data);
        return w->ring.size;
    }
    struct zs_ring_record *record = (struct zs_ring_record *)zs_ring_at(&w->ring, w->head + ahead);
    ZS_RING_STORE(&record->length, length, RELAXED, data);
    ZS_RING_STORE(&record->sequence, sequence, RELAXED, data);
    return zs_message_span(&w->ring, length);
}

/* Publish records that were laid, of span counts together. */
static inline void zs_message_publish(struct zs_ring_writer *w, uint64_t span)
{
    /* Before the head: who joins there knows the next message's number. A writer that dies in between
     * has numbered a message that nobody gets, which counts as lost. */
    ZS_RING_STORE(&w->ring.control->sequence, w->sequence, RELAXED, data);
    zs_writer_publish(w, span);
}

/* The message at count, of which waiting counts are published. -EPROTO for a length that does not fit;
 * where readers can be lapped it may also mean that. */
static inline int zs_message_at(const struct zs_ring *ring, uint64_t count, uint64_t waiting, struct zs_message *m)
{
    struct zs_ring_control *control = ring->control;
    struct zs_ring_record *record = (struct zs_ring_record *)zs_ring_at(ring, count);
    if (waiting == ring->size && ZS_RING_LOAD(&control->whole_at, RELAXED, data) == count) {
        m->at = (unsigned char *)record;
        m->length = ZS_RING_LOAD(&control->whole_length, RELAXED, data);
        m->sequence = ZS_RING_LOAD(&control->whole_sequence, RELAXED, data);
        m->span = ring->size;
        return m->length > ring->size ? -EPROTO : 0;
    }
    m->at = (unsigned char *)(record + 1);
    m->length = ZS_RING_LOAD(&record->length, RELAXED, data);
    m->sequence = ZS_RING_LOAD(&record->sequence, RELAXED, data);
    if (m->length > ring->size - ZS_RECORD)
        return -EPROTO;
    m->span = zs_message_span(ring, m->length);
    return m->span > waiting ? -EPROTO : 0;
}

/* Room for span counts at the cost of the oldest messages: the floor stays at a record's begin. */
static inline int zs_message_overwrite(struct zs_ring_writer *w, uint64_t span)
{
    uint64_t floor = w->floor;
    struct zs_message oldest;
    while (span > w->ring.limit - (w->head - floor)) {
        int rc = zs_message_at(&w->ring, floor, w->head - floor, &oldest);
        if (rc < 0)
            return rc;
        floor += oldest.span;
    }
    if (floor != w->floor)
        zs_writer_lap(w, floor);
    return 0;
}

/* The next message of a reader that has observed it. Where readers can be lapped, the message
 * is only what it seems if zs_reader_lapped() then says 0. */
static inline int zs_message_next(struct zs_ring_reader *r, struct zs_message *m)
{
    return zs_message_at(&r->ring, r->next, r->head - r->next, m);
}

/* Step over message m: how many were lost before it. */
static inline uint64_t zs_message_step(struct zs_ring_reader *r, const struct zs_message *m)
{
    uint64_t missed = 0;
    if (r->known && r->ring.on_full == ZS_RING_OVERWRITE && zs_ring_after(m->sequence, r->sequence))
        missed = m->sequence - r->sequence;
    r->next += m->span;
    r->sequence = m->sequence + 1;
    r->known = 1;
    return missed;
}

#endif
