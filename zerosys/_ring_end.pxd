"""What writer and reader of a ring have in common, and the windows they lend."""

from zerosys._ring cimport RingMemory, int64_t, uint64_t, zs_message, zs_ring, zs_ring_end

cdef extern from "_ring_fork.h":
    enum:
        FORKED "ZS_END_FORKED"

    struct zs_keep:
        pass


# What an end's ``state`` is; the others are not to be touched.
cdef enum:
    CLOSED = 0
    USABLE = 1
    LENT = 2   # a window is open
    BUSY = -1  # a call of this process is in it, and may run other code: another thread's, a signal handler's


cdef class End:
    cdef RingMemory memory
    cdef object owner         # whose buffer the data is
    cdef object array         # of all items, of which windows' are slices; None: not asked for, False: none
    cdef Py_buffer data
    cdef zs_ring_end place
    cdef zs_keep keep
    cdef int fd               # a duplicate of the control file's where own_fd could not be had, else -1
    cdef int state
    cdef uint64_t serial      # of the window that was lent last
    cdef bint has_data
    cdef Py_ssize_t exports
    cdef int64_t spin
    cdef object __weakref__

    cdef int prepare(self, RingMemory memory, object data, bint writable, object control_fd,
                     object spin) except -1
    cdef int ask(self) noexcept
    cdef int settle(self, int rc, str what) except -1
    cdef int refuse(self) except -1
    cdef int vacate(self) except -1
    cdef int give_back_view(self) except -1
    cdef object all_items(self, bint writable)
    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1


cdef class Window:
    cdef End end
    cdef unsigned char *at
    cdef uint64_t begin      # its first count
    cdef uint64_t serial
    cdef Py_ssize_t items    # its length: items, or bytes of a message
    cdef Py_ssize_t nbytes_
    cdef Py_ssize_t shape[8]
    cdef Py_ssize_t strides[8]
    cdef bint writable, truth
    cdef object scratch      # what a dropped claim is written to
    cdef zs_message message  # a reader's, with its record

    cdef bint is_open(self) noexcept
    cdef int check(self, object n, Py_ssize_t *count) except -1


cdef int lend(Window window, End end, unsigned char *at, uint64_t begin, Py_ssize_t items) except -1
