"""What the readers of items and of messages have in common: waiting, giving back, windows to look into."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR
from libc.string cimport memcpy

from zerosys._args cimport as_count
from zerosys._result cimport fail
from zerosys._ring cimport (
    EOWNERDEAD, MESSAGES, OVERWRITE, SLICE, STREAM, RingMemory, add_u64, c_catch_up, c_clock, c_ended,
    c_give_back, c_lapped, c_lose, c_orphaned, c_pause, c_reader_close, c_reader_doze, c_reader_open,
    c_reader_spin, c_ready, corrupt, deadline_of, load_u32, load_u64)
from zerosys._ring_end cimport BUSY, CLOSED, FORKED, LENT, USABLE

from zerosys._ring import Overrun, PeerDead

cdef extern from "_ring_watch.h" nogil:
    int c_watch_start "zs_watch_start"(zs_watch *w)
    void c_watch_arm "zs_watch_arm"(zs_watch *w)
    void c_watch_stop "zs_watch_stop"(zs_watch *w)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef Py_ssize_t LONG = 256 << 10  # from here on other threads may run while bytes are copied
cdef int64_t GLANCE = 1_000_000   # ns between two looks whether a device has finished


@cython.auto_pickle(False)
cdef class Reader(End):
    """What the readers of items and of messages have in common; made by ring.reader()."""

    def __cinit__(self):
        self.watch.event = -1

    def __init__(self, RingMemory memory, data, control_fd, *, oldest, slot=None, spin=None):
        self.prepare(memory, data, False, control_fd, spin)
        cdef int wish = -1 if slot is None else <int>min(as_count(slot, "slot"), 1 << 16)
        if wish >= <int>memory.ring.count:
            raise ValueError(f"slot must be less than the ring's {memory.ring.count} (readers=), not {wish}")
        cdef int rc = c_reader_open(&self.r, &memory.ring, self.fd, wish, oldest, &self.place)
        taken = "all slots of the ring are" if slot is None else f"slot {slot} is"
        self.settle(rc, f"{taken} taken: {self.owners()}; create the ring with more readers=" if rc == -EAGAIN
                    else "a slot or the floor")

    def owners(self):
        """Who has slots, in words."""
        pids = [load_u32(&self.memory.ring.slots[i].peer.pid) for i in range(self.memory.ring.count)]
        return f"process {', '.join(str(pid) for pid in pids if pid)}"

    def __dealloc__(self):
        if self.state == USABLE or self.state == LENT:
            self.quit_watching()
            c_reader_close(&self.r, &self.place)
        elif self.watch.event >= 0:  # a forked child has the descriptor, and no thread
            close(self.watch.event)

    # -- waiting -----------------------------------------------------------------------------

    cdef int ready(self, uint64_t n, object timeout) except -1:
        """Have n counts waiting, or all that will ever come; in overwrite mode none that is overwritten."""
        cdef int64_t deadline
        cdef int _turn
        if self.r.ring.on_full != OVERWRITE:
            return self.published(n, timeout)
        deadline = deadline_of(timeout)
        for _turn in range(PATIENCE):
            self.published(n, timeout)
            if not self.catch_up() or self.r.head - self.r.next >= n:
                return 1
            if deadline >= 0:
                timeout = max(deadline - c_clock(), 0) / 1e9
        outrun()

    cdef int poll(self, uint64_t n) except -1:
        """Whether n counts wait, or all that will ever come; that none does is told to who feeds fileno()."""
        cdef int rc
        if self.deferred:
            self._reap(False)
        if self.r.ring.on_full == OVERWRITE:
            self.catch_up()
        rc = c_ready(&self.r, n)
        if rc < 0:
            corrupt("the writer's head")
        if rc == 0:
            self.prompt()
        return rc

    cdef int published(self, uint64_t n, object timeout) except -1:
        """Have n counts published, or all that will ever come."""
        cdef int rc, _turn
        if self.deferred:
            self._reap(False)
        rc = c_ready(&self.r, n)
        for _turn in range(200 if self.spin else 0):  # a microsecond or two, before other threads may run
            if rc:
                break
            c_pause()
            rc = c_ready(&self.r, n)
        if rc > 0:
            return 1
        if rc < 0:
            corrupt("the writer's head")
        return self.wait(n, timeout)

    cdef int wait(self, uint64_t n, object timeout) except -1:
        """Sleep until n counts wait, looking at signals and at the writer's life."""
        cdef int64_t deadline = deadline_of(timeout), begun = c_clock(), left = SLICE, spin = self.spin
        cdef int rc = 0
        self.state = BUSY
        try:
            while rc == 0:
                if deadline >= 0:
                    left = min(deadline - c_clock(), <int64_t>SLICE)
                    if left <= 0:
                        raise TimeoutError(f"the writer sent less than was waited for within {timeout} s")
                with nogil:
                    if spin:
                        rc = c_reader_spin(&self.r, n, min(spin, left))
                        spin = 0
                    if rc == 0:
                        rc = c_reader_doze(&self.r, n, min(left, GLANCE) if self.deferred else left)
                if rc == -EINTR:
                    rc = 0
                if rc == 0:
                    PyErr_CheckSignals()
                    if self.state != BUSY:  # a signal's handler forked, and this is the child
                        self.refuse()
                    if self.deferred:
                        self._reap(False)
                    if c_orphaned(&self.r, self.ask()):
                        rc = c_ready(&self.r, n)  # what it published at the very last
                        if rc == 0:
                            self.tell_dead()
            if rc < 0:
                corrupt("the writer's head")
            return 1
        finally:
            if self.state == BUSY:
                self.state = USABLE
                add_u64(&self.r.slot.blocked, c_clock() - begun)
                self.prompt()

    def tell_dead(self):
        """Raise PeerDead for the writer."""
        pid = load_u32(&self.r.ring.control.peer.pid)
        dead = PeerDead(EOWNERDEAD, f"the writer, process {pid}, died without ending the stream: what it "
                        "published was read; another writer may go on")
        dead.pid = pid
        raise dead

    # -- giving back ---------------------------------------------------------------------------

    cdef int give_back(self, uint64_t n, Py_ssize_t items, object after) except -1:
        """Step over n counts, and release them: at once, or when *after* has happened."""
        if after is None and not self.deferred:
            self.r.next += n
            c_give_back(&self.r, self.r.next, items)
        else:
            self._defer(after, self.r.next + n, items)  # which may refuse
            self.r.next += n
            self.deferred += 1
        return 0

    def _defer(self, after, count, items):
        """Call ``_release(count, items)``, in order, when the device event *after* has happened."""
        raise NotImplementedError

    def _reap(self, wait):
        """Release what devices have finished with; with *wait*, all."""

    def _release(self, count, items):
        """Release all below *count*, which was deferred."""
        c_give_back(&self.r, <uint64_t>count, <uint64_t>items)
        self.deferred -= 1

    cdef int step_on(self) except -1:
        """Release what the last step of an iteration handed out."""
        cdef uint64_t n = self.delivered
        self.delivered = 0
        if self.state == LENT:
            self.state = USABLE
        if self.state != USABLE:
            self.refuse()
        if n:
            self.give_back(n, n if self.r.ring.kind == STREAM else 1, None)
        return 0

    cdef bint catch_up(self) except -1:
        """In overwrite mode: move up to what is not overwritten, and count what was missed: whether any."""
        cdef int rc = 0
        cdef uint64_t missed = c_catch_up(&self.r, &rc)
        if rc < 0:
            corrupt("the floor")
        if missed and self.r.ring.kind == STREAM:
            c_lose(&self.r, missed)
        return missed != 0

    # -- for event loops -------------------------------------------------------------------------

    def fileno(self):
        """A descriptor, still the reader's, that is readable when a try_peek() or try_read() is worth it.

        Something is published, or the stream ended, or its writer died. It is an eventfd of
        this process that one thread feeds, started by the first call; it may be readable
        without need, and no longer is once a try_ call came back empty. See eventfd(2).
        """
        cdef int rc
        if self.state == CLOSED or self.state == FORKED:
            self.refuse()
        if self.watch.event < 0:
            self.watch.r, self.watch.fd = &self.r, self.ask()
            rc = c_watch_start(&self.watch)
            if rc < 0:
                fail(rc, "eventfd or pthread_create")
        return self.watch.event

    cdef int prompt(self) except -1:
        """Nothing waits: let the thread that feeds fileno() look again."""
        if self.watch.event >= 0:
            c_watch_arm(&self.watch)
        return 0

    cdef void quit_watching(self) noexcept:
        if self.watch.event >= 0:
            with nogil:
                c_watch_stop(&self.watch)

    def look(self):
        """Raise PeerDead if the writer died, and nothing waits that it published."""
        cdef int rc
        if self.state != USABLE:
            self.refuse()
        if c_orphaned(&self.r, self.ask()):
            rc = c_ready(&self.r, 1)
            if rc < 0:
                corrupt("the writer's head")
            if rc == 0:
                self.tell_dead()

    # -- what it is ------------------------------------------------------------------------------

    @property
    def slot(self):
        """The number of its slot."""
        return self.place.place - 1

    @property
    def lag(self):
        """How far the writer is ahead of what was released: items, or bytes of messages' records."""
        if self.state == CLOSED or self.state == FORKED:
            self.refuse()
        return load_u64(&self.r.ring.control.head) - self.r.tail

    @property
    def lost(self):
        """Items or messages that were overwritten before they were read, by all who had the slot."""
        return self.r.lost

    @property
    def ended(self):
        """Whether the writer closed and all was read."""
        if self.state == CLOSED or self.state == FORKED:
            self.refuse()
        return c_ended(&self.r) and load_u64(&self.r.ring.control.head) == self.r.next

    def close(self):
        """Free the slot; what was not released is kept for nobody. Twice is fine.

        Waits for devices that releases were deferred to. Raises BufferError under an open window
        (but an iteration's last block is released). Memory is given back, with the last view
        at the latest.
        """
        if self.state == CLOSED or self.state == FORKED:
            if self.has_data:
                self.vacate()
            return
        if self.delivered:
            self.step_on()
        if self.state != USABLE:
            self.refuse()
        if self.deferred:
            self._reap(True)
        self.quit_watching()
        c_reader_close(&self.r, &self.place)
        self.vacate()

    def __enter__(self):
        if self.state != USABLE:
            self.refuse()
        return self

    def __exit__(self, *exc):
        """Close; an open window is not released."""
        if self.state == LENT and not self.delivered:
            self.state = USABLE
        self.close()

    def __iter__(self):
        return self


cdef int copy(Reader reader, void *to, const void *data, Py_ssize_t nbytes) except -1:
    if nbytes < LONG:
        memcpy(to, data, nbytes)
        return 0
    reader.state = BUSY
    with nogil:
        memcpy(to, data, nbytes)
    if reader.state == BUSY:
        reader.state = USABLE
    return 0


cdef int get_room(object buffer, Py_buffer *view, Py_ssize_t size, Py_ssize_t element) except -1:
    """The writable bytes of *buffer*, whole items."""
    try:
        PyObject_GetBuffer(buffer, view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)
    except (BufferError, ValueError) as refusal:  # numpy's is the latter
        raise TypeError(f"buffer must be writable and contiguous: {refusal}") from None
    if view.len % size:
        nbytes = view.len
        PyBuffer_Release(view)
        raise ValueError(f"buffer must have room for whole items of {size} bytes, not {nbytes} bytes")
    if view.itemsize != 1 and view.itemsize != element and view.itemsize != size:
        got = view.itemsize
        PyBuffer_Release(view)
        raise TypeError(f"buffer has items of {got} bytes, and the ring's have {size}: pass its bytes "
                        "(memoryview(buffer).cast('B'))")
    return 0


cdef int outrun() except -1:
    raise Overrun(f"the writer lapped this reader {PATIENCE} times in a row: read less at once, or make the "
                  "ring larger")


cdef int lapped(uint64_t missed) except -1:
    raise Overrun(f"the writer overwrote {missed} of the window's items while they were read", missed)


@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class Peek(Window):
    """A reader's window, a read-only buffer of its items: release() it once, at once or after a device.

    Leaving its ``with`` releases all of it. It is falsy at the end of the stream.
    """

    def release(self, n=None, *, after=None):
        """Give the first *n* items (None: all; a message goes whole) back to the writer.

        *after* is what a device will have finished with them at: an event, or a stream, whose
        present end is meant. The reader goes on at once, and looks whether it has happened at each
        later call. In overwrite mode raises Overrun if the window was lapped.
        """
        cdef Py_ssize_t count
        self.check(n, &count)
        cdef uint64_t missed = self.missed()
        self.end.finish(self, True, count, after)
        if missed:
            lapped(missed)

    def put_back(self):
        """End the window and release nothing: the same items are read next."""
        cdef Py_ssize_t count
        self.check(None, &count)
        self.end.state = USABLE

    def intact(self):
        """Whether nothing of it was overwritten until now; true but in overwrite mode."""
        cdef Py_ssize_t count
        self.check(None, &count)
        return self.missed() == 0

    cdef uint64_t missed(self) noexcept:
        """The items that can have been overwritten; a lapped message is one."""
        cdef Reader reader = self.end
        cdef uint64_t over
        if reader.r.ring.on_full != OVERWRITE or not self.truth:
            return 0
        over = c_lapped(&reader.r, self.begin)
        if reader.r.ring.kind == MESSAGES:
            return over != 0
        return min(over, <uint64_t>self.items)

    def __exit__(self, kind, value, trace):
        cdef uint64_t missed
        if self.is_open():
            missed = self.missed()
            self.end.finish(self, True, self.items, None)
            if missed and kind is None:
                lapped(missed)
