"""ring.h for nogil code, and the checked memory of a ring that its ends stand on."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from "<errno.h>" nogil:
    enum:
        EOWNERDEAD

cdef extern from "ring.h" nogil:
    enum:
        STREAM "ZS_RING_STREAM"
        MESSAGES "ZS_RING_MESSAGES"
        BLOCK "ZS_RING_BLOCK"
        RAISE "ZS_RING_RAISE"
        DROP "ZS_RING_DROP"
        OVERWRITE "ZS_RING_OVERWRITE"
        EVICT "ZS_RING_DEAD_EVICT"
        FREE "ZS_RING_FREE"
        ACTIVE "ZS_RING_ACTIVE"
        MOST_SLOTS "ZS_RING_MOST_SLOTS"
        MOST_DIMS "ZS_RING_MOST_DIMS"
        FORMAT_ROOM "ZS_RING_FORMAT_ROOM"
        SPIN "ZS_RING_SPIN"
        SLICE "ZS_RING_SLICE"
        RECORD "ZS_RECORD"

    enum zs_ring_alive:
        DEAD "ZS_RING_DEAD"
        ALIVE "ZS_RING_ALIVE"
        UNKNOWN "ZS_RING_UNKNOWN"

    struct zs_ring_header:
        uint64_t magic
        uint32_t version, kind, on_full, on_dead, slots
        uint64_t size, capacity, limit, item_size, start, data_device, data_inode
        uint32_t format_length, dims
        uint64_t shape[7]
        char format[768]

    struct zs_ring_peer:
        uint32_t life, pid

    struct zs_ring_control:
        zs_ring_header header
        uint64_t head, sequence, floor, lost, blocked, high_water, evicted
        uint32_t closed, state
        zs_ring_peer peer

    struct zs_ring_slot:
        uint64_t tail, taken, lost, high_water, blocked
        uint32_t state
        zs_ring_peer peer

    struct zs_ring:
        zs_ring_control *control
        zs_ring_slot *slots
        unsigned char *data
        uint64_t size, mask, limit, item_size, start
        uint32_t count, kind, on_full, on_dead

    struct zs_ring_writer:
        zs_ring ring
        uint64_t head, floor, sequence

    struct zs_ring_reader:
        zs_ring ring
        zs_ring_slot *slot
        uint64_t tail, next, head, taken, lost

    struct zs_ring_end:
        int own_fd
        uint32_t place

    struct zs_message:
        unsigned char *at
        uint64_t length, sequence, span

    uint64_t load_u64 "zs_ring_read_u64"(uint64_t *at)
    uint32_t load_u32 "zs_ring_read_u32"(uint32_t *at)
    void add_u64 "zs_ring_add_u64"(uint64_t *at, uint64_t n)
    uint64_t control_size "zs_ring_control_size"(uint32_t slots)
    void c_format "zs_ring_format"(zs_ring_control *control, const zs_ring_header *header)
    const char *c_check "zs_ring_check"(zs_ring_control *control, uint64_t control_bytes,
                                        uint64_t data_bytes, zs_ring_header *header, zs_ring *ring)
    zs_ring_alive c_lives "zs_ring_lives"(int fd, uint32_t place, const zs_ring_peer *peer)
    bint comes_after "zs_ring_after"(uint64_t a, uint64_t b)
    void c_pause "zs_ring_pause"()
    int64_t c_clock "zs_ring_clock"()
    unsigned char *ring_at "zs_ring_at"(const zs_ring *ring, uint64_t count)

    int c_writer_open "zs_writer_open"(zs_ring_writer *w, const zs_ring *ring, int control_fd,
                                       zs_ring_end *end)
    void c_writer_finish "zs_writer_finish"(zs_ring_writer *w, zs_ring_end *end)
    void c_writer_give_up "zs_writer_give_up"(zs_ring_writer *w, zs_ring_end *end)
    int c_writer_room "zs_writer_room"(zs_ring_writer *w, uint64_t n)
    int c_writer_spin "zs_writer_spin"(zs_ring_writer *w, uint64_t n, int64_t ns)
    int c_writer_doze "zs_writer_doze"(zs_ring_writer *w, uint64_t n, int64_t ns)
    int c_writer_look "zs_writer_look"(zs_ring_writer *w, int control_fd, int own_fd, uint64_t n,
                                       bint evict, uint32_t *which)
    void c_overwrite "zs_writer_overwrite"(zs_ring_writer *w, uint64_t n)
    void c_commit "zs_writer_commit"(zs_ring_writer *w, uint64_t n)

    int c_reader_open "zs_reader_open"(zs_ring_reader *r, const zs_ring *ring, int control_fd, int slot,
                                       int oldest, zs_ring_end *end)
    void c_reader_close "zs_reader_close"(zs_ring_reader *r, zs_ring_end *end)
    int c_observe "zs_reader_observe"(zs_ring_reader *r)
    int c_ready "zs_reader_ready"(zs_ring_reader *r, uint64_t n)
    int c_ended "zs_reader_ended"(zs_ring_reader *r)
    int c_reader_spin "zs_reader_spin"(zs_ring_reader *r, uint64_t n, int64_t ns)
    int c_reader_doze "zs_reader_doze"(zs_ring_reader *r, uint64_t n, int64_t ns)
    int c_orphaned "zs_reader_orphaned"(zs_ring_reader *r, int control_fd)
    uint64_t c_lapped "zs_reader_lapped"(zs_ring_reader *r, uint64_t count)
    uint64_t c_catch_up "zs_reader_catch_up"(zs_ring_reader *r, int *rc)
    void c_give_back "zs_reader_give_back"(zs_ring_reader *r, uint64_t count, uint64_t n)
    void c_lose "zs_reader_lose"(zs_ring_reader *r, uint64_t n)

    uint64_t c_message_span "zs_message_span"(const zs_ring *ring, uint64_t length)
    unsigned char *c_message_place "zs_message_place"(zs_ring_writer *w, uint64_t ahead, uint64_t length)
    uint64_t c_message_lay "zs_message_lay"(zs_ring_writer *w, uint64_t ahead, uint64_t claimed,
                                            uint64_t length)
    void c_message_commit "zs_message_commit"(zs_ring_writer *w, uint64_t span)
    int c_message_overwrite "zs_message_overwrite"(zs_ring_writer *w, uint64_t span)
    int c_message_next "zs_message_next"(zs_ring_reader *r, zs_message *m)
    uint64_t c_message_step "zs_message_step"(zs_ring_reader *r, const zs_message *m)


cdef class RingMemory:
    cdef zs_ring ring
    cdef zs_ring_header header
    cdef Py_buffer view  # of the control mapping
    cdef bint held, leaving
    cdef Py_ssize_t ends  # of this process, which need the control block
    cdef bytes element   # the format of an item's element
    cdef Py_ssize_t element_size
    cdef Py_ssize_t dims[7]
    cdef object __weakref__

    cdef int check(self) except -1
    cdef int describe(self) except -1
    cdef int left(self) except -1
    cdef object reader_counters(self, uint32_t i, int fd, uint64_t head)


cdef int64_t deadline_of(object timeout) except? -2
cdef int corrupt(str what) except -1
