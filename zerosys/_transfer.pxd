"""The one loop that carries bytes, for nogil code: open, begin, step or drive, end, close.

Every call returns a ``WANT`` outcome or -errno; ``side`` tells who blocks or failed.
"""

from zerosys._nonblock cimport Loaned

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
        int sure
        loff_t offset
        unsigned char *at

    ssize_t c_end_open "zs_end_open"(end *end, int fd, loff_t offset)
    ssize_t c_end_begin "zs_end_begin"(end *end)
    void c_end_close "zs_end_close"(end *end)

cdef extern from "_transfer_state.h" nogil:
    enum:
        DONE "ZS_DONE"
        WANT_SOURCE "ZS_WANT_SOURCE"
        WANT_SINK "ZS_WANT_SINK"
        WANT_TIME "ZS_WANT_TIME"
        WORKING "ZS_WORKING"
        EXPIRED "ZS_EXPIRED"
        STALLED "ZS_STALLED"

    enum transfer_side "zs_side":
        NEITHER "ZS_NEITHER"
        SOURCE "ZS_SOURCE"
        SINK "ZS_SINK"

    enum transfer_path "zs_path":
        SPLICE "ZS_SPLICE"
        SPLICE_PIPE "ZS_SPLICE_PIPE"
        SENDFILE "ZS_SENDFILE"
        CLONE "ZS_CLONE"
        RANGE "ZS_RANGE"
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
        int wants_nonblock
        int strict
        int stable
        int would_copy
        int reused
        int borrows
        int pipe[2]
        size_t pipe_wish
        size_t pipe_size
        size_t stranded
        size_t left
        unsigned long long taken
        unsigned long long moved
        unsigned long long received
        unsigned long long copied
        long long stall
        long long progressed
        long long spin
        double rate
        long long credited

    unsigned long long c_delivered "zs_delivered"(const transfer *t)
    long long c_until_credit "zs_until_credit"(const transfer *t)
    long long c_clock "zs_clock"(int clock)

cdef extern from "_transfer_stage.h" nogil:
    ssize_t c_transfer_open "zs_transfer_open"(transfer *t)
    void c_transfer_close "zs_transfer_close"(transfer *t)
    ssize_t c_take_stranded "zs_take_stranded"(transfer *t, void *into)

cdef extern from "_transfer.h" nogil:
    ssize_t c_transfer_begin "zs_transfer_begin"(transfer *t)
    int c_transfer_once "zs_transfer_once"(transfer *t)

cdef extern from "_transfer_wait.h" nogil:
    int c_transfer_step "zs_transfer_step"(transfer *t)
    int c_transfer_step_until "zs_transfer_step_until"(transfer *t, long long until)
    int c_transfer_wait "zs_transfer_wait"(transfer *t, int want, long long deadline)
    int c_transfer_drive "zs_transfer_drive"(transfer *t, long long deadline)


cdef class Transfer:
    cdef transfer t
    cdef Py_buffer src_view, dst_view
    cdef bint src_held, dst_held, running, begun, closed_
    cdef object src, dst
    cdef str reason
    cdef Loaned loan

    cdef int open_src(self, object src, object offset, object count) except -1
    cdef int open_dst(self, object dst, object offset, object count) except -1
    cdef int open_end(self, end *it, object thing, object offset, str name) except -1
    cdef int fit(self, Py_ssize_t length, object count, str name) except -1
    cdef int start(self) except -1
    cdef int stop(self) except -1
    cdef int stop_stepping(self) except -1
    cdef int check(self) except -1
    cdef int claim(self) except -1
    cdef str expired(self, object timeout)
    cdef str copies_because(self)
    cdef int refuse(self, ssize_t rc) except -1
    cdef int mark(self, object stopped) except -1
    cdef void drop(self) noexcept

cdef double seconds_of(object seconds, str name) except -1
cdef long long deadline_of(object timeout, str name=*) except? -2
cdef Loaned begin(transfer *t)
