"""What the writers of items and of messages have in common: room, waiting, the windows to fill."""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from zerosys._ring cimport (
    BLOCK, DROP, EOWNERDEAD, EVICT, MESSAGES, OVERWRITE, RAISE, SLICE, RingMemory, add_u64, c_clock,
    c_message_overwrite, c_overwrite, c_writer_doze, c_writer_finish, c_writer_give_up, c_writer_look,
    c_writer_open, c_writer_room, c_writer_spin, corrupt, deadline_of, load_u32, load_u64)
from zerosys._ring_end cimport BUSY, CLOSED, FORKED, LENT, USABLE, lend

from zerosys._ring import Full, PeerDead

cdef Py_ssize_t LONG = 256 << 10  # from here on other threads may run while bytes are copied
cdef int64_t SELDOM = SLICE       # ns between two looks at readers' lives by who does not wait


@cython.auto_pickle(False)
cdef class Writer(End):
    """What the writers of items and of messages have in common; made by ring.writer()."""

    def __init__(self, RingMemory memory, data, control_fd, *, spin=None):
        self.prepare(memory, data, True, control_fd, spin)
        cdef int rc = c_writer_open(&self.w, &memory.ring, self.fd, &self.place)
        pid = load_u32(&memory.ring.control.peer.pid)
        self.settle(rc, f"the ring has a writer, process {pid}: there is one at a time")
        self.seen = 0

    cdef int room(self, uint64_t n, object timeout, bint patient) except -1:
        """Have room for n counts: 1, or 0 where the claim is to be dropped or was only tried."""
        cdef int rc
        if n > self.w.ring.limit:
            raise ValueError(f"the ring never has room for {n} at once: its limit is {self.w.ring.limit}")
        if self.w.ring.on_full == OVERWRITE:
            if self.w.ring.kind == MESSAGES:
                if c_message_overwrite(&self.w, n) < 0:
                    corrupt("a message's length")
            else:
                c_overwrite(&self.w, n)
            return 1
        rc = c_writer_room(&self.w, n)
        if rc < 0:
            corrupt("a reader's tail")
        if rc or (patient and self.w.ring.on_full == BLOCK):
            return rc or self.wait(n, timeout)
        if c_clock() - self.seen > SELDOM:
            self.seen = c_clock()
            if self.look(n, self.w.ring.on_full != DROP):
                return self.room(n, timeout, patient)
        if patient and self.w.ring.on_full == RAISE:
            raise Full(f"the ring has no room for {n} more: a reader is {self.w.head - self.w.floor} of "
                       f"{self.w.ring.limit} behind")
        return 0

    cdef int wait(self, uint64_t n, object timeout) except -1:
        """Sleep until there is room for n counts, looking at signals and at readers' lives."""
        cdef int64_t deadline = deadline_of(timeout), begun = c_clock(), left = SLICE, spin = self.spin
        cdef int rc = 0
        self.state = BUSY
        try:
            while rc == 0:
                if deadline >= 0:
                    left = min(deadline - c_clock(), <int64_t>SLICE)
                    if left <= 0:
                        raise TimeoutError(f"no reader made room for {n} within {timeout} s")
                with nogil:
                    if spin:
                        rc = c_writer_spin(&self.w, n, min(spin, left))
                        spin = 0
                    if rc == 0:
                        rc = c_writer_doze(&self.w, n, left)
                if rc == -EINTR:
                    rc = 0
                if rc == 0:
                    PyErr_CheckSignals()
                    if self.state != BUSY:  # a signal's handler forked, and this is the child
                        self.refuse()
                    if self.look(n, True):
                        rc = c_writer_room(&self.w, n)
            if rc < 0:
                corrupt("a reader's tail")
            return 1
        finally:
            if self.state == BUSY:
                self.state = USABLE
                add_u64(&self.w.ring.control.blocked, c_clock() - begun)

    cdef int look(self, uint64_t n, bint tell) except -1:
        """Evict dead readers that hold n counts up, or raise PeerDead; how many were evicted."""
        cdef uint32_t slot = 0
        cdef int rc = c_writer_look(&self.w, self.ask(), self.place.own_fd, n,
                                    self.w.ring.on_dead == EVICT, &slot)
        if rc == -EOWNERDEAD:
            if not tell:
                return 0
            pid = load_u32(&self.w.ring.slots[slot].peer.pid)
            dead = PeerDead(EOWNERDEAD, f"the reader of slot {slot}, process {pid}, died, and the ring is "
                            "full of what it did not read: start another reader, which goes on there, or "
                            "call evict_dead()")
            dead.pid = pid
            raise dead
        return max(rc, 0)

    cdef int drop(self, uint64_t n) except -1:
        add_u64(&self.w.ring.control.lost, n)
        return 0

    cdef Window lend_scratch(self, Py_ssize_t items, Py_ssize_t nbytes):
        """A window for *items* that the full ring drops: it is filled all the same, and goes nowhere."""
        cdef Claim window = Claim.__new__(Claim)
        window.scratch = bytearray(nbytes)
        lend(window, self, <unsigned char *>PyByteArray_AS_STRING(window.scratch), self.w.head, items)
        return window

    cdef int copy_in(self, unsigned char *to, const void *data, Py_ssize_t nbytes) except -1:
        if nbytes < LONG:
            memcpy(to, data, nbytes)
            return 0
        self.state = BUSY
        with nogil:
            memcpy(to, data, nbytes)
        if self.state == BUSY:
            self.state = USABLE
        return 0

    def evict_dead(self):
        """Free the slots of readers that died, and forget what they had not read. Returns how many."""
        cdef uint32_t slot = 0
        if self.state != USABLE:
            self.refuse()
        # More than fits is held up by every reader.
        return c_writer_look(&self.w, self.ask(), self.place.own_fd, self.w.ring.limit + 1, True, &slot)

    @property
    def lost(self):
        """The items or messages that were dropped because the ring was full."""
        self.memory.check()
        return load_u64(&self.memory.ring.control.lost)

    def close(self):
        """End the stream: readers get what is there, and then the end. Twice is fine.

        Raises BufferError under an open window. Memory is given back, with the last view at
        the latest.
        """
        if self.state == CLOSED or self.state == FORKED:
            if self.has_data:
                self.vacate()
            return
        if self.state != USABLE:
            self.refuse()
        c_writer_finish(&self.w, &self.place)
        self.vacate()

    def leave(self):
        """Give the place up without ending the stream: another writer may go on."""
        if self.state != USABLE:
            self.refuse()
        c_writer_give_up(&self.w, &self.place)
        self.vacate()

    def __enter__(self):
        if self.state != USABLE:
            self.refuse()
        return self

    def __exit__(self, *exc):
        """Abort an open window, and close."""
        if self.state == LENT:
            self.state = USABLE
        self.close()


@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class Claim(Window):
    """A writer's window, a writable buffer of its items: commit() it, or abort() it, once.

    Leaving its ``with`` commits all of it; an exception there aborts it.
    """

    def __cinit__(self):
        self.writable = True

    def commit(self, n=None):
        """Publish the first *n* items (None: all), and give the rest back."""
        cdef Py_ssize_t count
        self.check(n, &count)
        self.end.finish(self, True, count, None)

    def abort(self):
        """Publish nothing."""
        cdef Py_ssize_t count
        self.check(None, &count)
        self.end.finish(self, False, 0, None)

    @property
    def dropped(self):
        """Whether the ring was full, so that this goes nowhere (on_full="drop")."""
        return self.scratch is not None

    def __exit__(self, kind, value, trace):
        if self.is_open():
            self.end.finish(self, kind is None, self.items, None)
