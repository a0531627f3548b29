"""The one loop that carries bytes, for nogil code: open, begin, step or drive, end, close.

Every call returns a ``WANT`` outcome or -errno; ``side`` tells who blocks or failed.
"""

cdef extern from "<sys/types.h>" nogil:
    ctypedef long long loff_t

cdef extern from "_transfer_ends.h" nogil:
    enum end_kind "zs_end_kind":
        MEMORY "ZS_MEMORY"
        PIPE "ZS_PIPE"
        SOCKET "ZS_SOCKET"
        FILE "ZS_FILE"
        OTHER "ZS_OTHER"

    struct end "zs_end":
        end_kind kind
        int fd
        int blocking
        loff_t offset
        unsigned char *at

    ssize_t c_end_open "zs_end_open"(end *end, int fd, loff_t offset)

cdef extern from "_transfer.h" nogil:
    enum:
        DONE "ZS_DONE"
        WANT_SOURCE "ZS_WANT_SOURCE"
        WANT_SINK "ZS_WANT_SINK"
        WORKING "ZS_WORKING"
        EXPIRED "ZS_EXPIRED"

    enum transfer_side "zs_side":
        NEITHER "ZS_NEITHER"
        SOURCE "ZS_SOURCE"
        SINK "ZS_SINK"

    enum transfer_path "zs_path":
        SPLICE "ZS_SPLICE"
        SPLICE_PIPE "ZS_SPLICE_PIPE"
        TAKE "ZS_TAKE"
        GIVE "ZS_GIVE"
        COPY "ZS_COPY"
        BUFFER "ZS_BUFFER"

    struct transfer "zs_transfer":
        end src
        end dst
        transfer_path path
        transfer_side side
        int ended
        int touch_flags
        int pipe[2]
        size_t pipe_size
        size_t stranded
        size_t left
        unsigned long long moved
        unsigned long long received
        unsigned long long copied

    ssize_t c_transfer_open "zs_transfer_open"(transfer *t, size_t pipe_wish)
    ssize_t c_transfer_begin "zs_transfer_begin"(transfer *t)
    int c_transfer_once "zs_transfer_once"(transfer *t)
    void c_transfer_end "zs_transfer_end"(transfer *t)
    void c_transfer_close "zs_transfer_close"(transfer *t)
    ssize_t c_take_stranded "zs_take_stranded"(transfer *t, void *into)
    unsigned long long c_delivered "zs_delivered"(const transfer *t)

cdef extern from "_transfer_wait.h" nogil:
    int c_transfer_step "zs_transfer_step"(transfer *t)
    int c_transfer_wait "zs_transfer_wait"(transfer *t, int want, long long deadline)
    int c_transfer_drive "zs_transfer_drive"(transfer *t, long long deadline)
    long long c_clock "zs_clock"(int clock)
