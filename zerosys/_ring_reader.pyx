"""A reader of a ring: windows to look into, and calls that copy out."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR
from libc.string cimport memcpy

from zerosys._args cimport as_count
from zerosys._ring cimport *

from zerosys._ring import Overrun, PeerDead

cdef Py_ssize_t LONG = 256 << 10  # from here on other threads may run while bytes are copied
cdef int64_t GLANCE = 1_000_000   # ns between two looks whether a device has finished
cdef uint64_t PATIENCE = 1000     # copies in a row that the writer may lap


cdef class Reader(End):
    """What the readers of items and of messages have in common; made by ring.reader()."""

    def __init__(self, RingMemory memory, data, control_fd, *, oldest, slot=None, spin=None):
        cdef int control = self.prepare(memory, data, False, control_fd, spin)
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
            c_reader_close(&self.r, &self.place)

    # -- waiting -----------------------------------------------------------------------------

    cdef int ready(self, uint64_t n, object timeout) except -1:
        """Have n counts waiting, or all that will ever come."""
        cdef int rc, turn
        if self.deferred:
            self._reap(False)
        rc = c_ready(&self.r, n)
        for turn in range(200 if self.spin else 0):  # a microsecond or two, before other threads may run
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
        dead = PeerDead(EOWNERDEAD, f"the writer, process {pid}, died without ending the stream: what it published "
                        "was read; another writer may go on")
        dead.pid = pid
        raise dead

    # -- giving back ---------------------------------------------------------------------------

    cdef int give_back(self, uint64_t n, Py_ssize_t items, object after) except -1:
        """Step over n counts, and release them: at once, or when *after* has happened."""
        self.r.next += n
        if after is None and not self.deferred:
            c_give_back(&self.r, self.r.next, items)
        else:
            self._defer(after, self.r.next, items)
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

    cdef int catch_up(self) except -1:
        """In overwrite mode: move up to what is not overwritten, and count what was missed."""
        cdef int rc = 0
        cdef uint64_t missed = c_catch_up(&self.r, &rc)
        if rc < 0:
            corrupt("the floor")
        if missed and self.r.ring.kind == STREAM:
            c_lose(&self.r, missed)
        return 0

    cdef int prompt(self) except -1:
        """Let the thread that feeds fileno() look again; there is none yet."""
        return 0

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


cdef class StreamReader(Reader):
    """A reader of a StreamRing, made by its reader(): a context manager that frees its slot at exit.

    Counts are items of the ring's dtype. Iterating yields blocks of what waits: windows, each
    released at the next step; numpy arrays, copies, in overwrite mode. Not for two threads at once.
    """

    def peek(self, n, timeout=None):
        """A window of *n* items, all or none; shorter only at the end of the stream, and then empty, which is falsy.

        Waits up to *timeout* seconds (None: for ever). Leaving the window's ``with`` releases
        it, whatever happened there. Raises ValueError for more than the ring's limit,
        TimeoutError, PeerDead, and BufferError under another window.
        """
        cdef Py_ssize_t count = as_count(n, "n")
        if self.state != USABLE:
            self.refuse()
        self.fits(count)
        if self.r.head - self.r.next < <uint64_t>count or self.r.ring.on_full == OVERWRITE:
            self.ready(count, timeout)
        return self.window(count)

    def peek_some(self, max=None, timeout=None):
        """A window of 1 to *max* items (None: all that wait), once there are any; empty at the end of the stream."""
        cdef Py_ssize_t most = self.r.ring.limit if max is None else as_count(max, "max")
        if self.state != USABLE:
            self.refuse()
        if most == 0:
            raise ValueError("max must be at least 1, not 0")
        if c_observe(&self.r) < 0:
            corrupt("the writer's head")
        if self.r.head == self.r.next or self.deferred or self.r.ring.on_full == OVERWRITE:
            self.ready(1, timeout)
        return self.window(most)

    def try_peek(self, n=None):
        """peek(n), or with None peek_some(), or None where they would wait."""
        cdef Py_ssize_t count = 1 if n is None else as_count(n, "n")
        cdef int rc
        if self.state != USABLE:
            self.refuse()
        self.fits(count)
        if self.deferred:
            self._reap(False)
        rc = c_ready(&self.r, count)
        if rc < 0:
            corrupt("the writer's head")
        if rc == 0:
            self.prompt()
            return None
        return self.window(self.r.ring.limit if n is None else count)

    cdef int fits(self, Py_ssize_t n) except -1:
        if n == 0:
            raise ValueError("n must be at least 1, not 0")
        if <uint64_t>n > self.r.ring.limit:
            raise ValueError(f"{n} items never wait at once: the ring's limit is {self.r.ring.limit}")
        return 0

    cdef Window window(self, uint64_t n):
        """A window of up to n of the items that wait."""
        cdef Peek window = Peek.__new__(Peek)
        cdef uint64_t waiting
        if self.r.ring.on_full == OVERWRITE:
            self.catch_up()
        waiting = min(n, self.r.head - self.r.next)
        lend(window, self, ring_at(&self.r.ring, self.r.next), self.r.next, waiting)
        window.truth = waiting != 0
        return window

    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1:
        self.state = USABLE
        self.delivered = 0
        return self.give_back(n, n, after) if n else 0

    def read_into(self, buffer, timeout=None):
        """Fill *buffer*, writable, contiguous and of whole items; return the items, fewer only at the end of the stream.

        What does not wait at once is filled by parts, each released as it is copied; an
        exception has ``moved``, the items copied until then. In overwrite mode items that were
        lapped are skipped and counted (``lost``), never torn. Waits and raises as peek().
        """
        cdef Py_buffer view
        cdef uint64_t want, done = 0
        cdef Py_ssize_t size = <Py_ssize_t>self.memory.ring.item_size, got
        cdef int64_t deadline = deadline_of(timeout)
        if self.state != USABLE:
            self.refuse()
        get_room(buffer, &view, size, self.memory.element_size)
        try:
            want = view.len // size
            while done < want:
                got = self.copy_out(<unsigned char *>view.buf + done * size, min(want - done, self.r.ring.limit),
                                    timeout if deadline < 0 or not done else max(deadline - c_clock(), 0) / 1e9)
                if got == 0:
                    break
                done += got
            return done
        except BaseException as stopped:
            stopped.moved = done
            raise
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t copy_out(self, unsigned char *to, uint64_t n, object timeout) except -1:
        """Copy and release n items; fewer at the end, or where the reader was lapped meanwhile."""
        cdef uint64_t waiting, turn, missed = 0
        cdef bint lossy = self.r.ring.on_full == OVERWRITE
        for turn in range(PATIENCE):
            if self.r.head - self.r.next < n or lossy or self.deferred:
                self.ready(n, timeout)
            if lossy:
                self.catch_up()
            waiting = min(n, self.r.head - self.r.next)
            copy(self, to, ring_at(&self.r.ring, self.r.next), waiting * self.r.ring.item_size)
            missed = c_lapped(&self.r, self.r.next) if lossy else 0
            if missed == 0:
                if waiting:
                    self.give_back(waiting, waiting, None)
                return waiting
        raise Overrun(f"the writer lapped this reader {PATIENCE} times in a row: read smaller parts, or make the ring larger",
                      missed)

    def skip(self, n=None):
        """Release up to *n* of the items that wait now (None: all) without looking; return how many."""
        cdef uint64_t most = self.r.ring.limit if n is None else as_count(n, "n")
        cdef uint64_t waiting
        if self.state != USABLE:
            self.refuse()
        if c_observe(&self.r) < 0:
            corrupt("the writer's head")
        if self.r.ring.on_full == OVERWRITE:
            self.catch_up()
        waiting = min(most, self.r.head - self.r.next)
        if waiting:
            self.give_back(waiting, waiting, None)
        return waiting

    @property
    def available(self):
        """The items that wait now."""
        if self.state <= 0:
            self.refuse()
        cdef uint64_t waiting = load_u64(&self.r.ring.control.head) - self.r.next
        return <Py_ssize_t>min(waiting, self.r.ring.limit)

    def __next__(self):
        if self.delivered or self.state != USABLE:
            self.step_on()
        if self.r.ring.on_full == OVERWRITE:
            return self.copied_block()
        window = self.peek_some()
        if not window:
            self.state = USABLE
            raise StopIteration
        self.delivered = len(window)
        return window

    cdef object copied_block(self):
        import numpy

        self.ready(1, None)
        self.catch_up()
        cdef uint64_t n = min(self.r.head - self.r.next, self.r.ring.limit // 4 + 1)
        if n == 0:
            raise StopIteration
        held = numpy.empty(n * self.r.ring.item_size, numpy.uint8)
        with memoryview(held) as view:
            got = self.read_into(view)
        shape = (-1, *self.memory.item_shape)
        return held[:got * self.r.ring.item_size].view(self.memory.dtype).reshape(shape)


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
    except BufferError as refusal:
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


cdef class MessageReader(Reader):
    """A reader of a MessageRing, made by its reader(): a context manager that frees its slot at exit.

    Iterating yields each message as bytes, until the end of the stream. Not for two threads at once.
    """

    cdef bint find(self, zs_message *m, object timeout, bint patient) except -1:
        """The next message, once there is one: False at the end, or (not *patient*) where it would wait."""
        cdef int rc
        cdef uint64_t turn
        cdef bint lossy = self.r.ring.on_full == OVERWRITE
        for turn in range(PATIENCE):
            if self.r.head == self.r.next or lossy or self.deferred:
                if patient:
                    self.ready(1, timeout)
                else:
                    if self.deferred:
                        self._reap(False)
                    rc = c_ready(&self.r, 1)
                    if rc < 0:
                        corrupt("the writer's head")
                    if rc == 0:
                        self.prompt()
                if lossy:
                    self.catch_up()
                if self.r.head == self.r.next:
                    return False
            rc = c_message_next(&self.r, m)
            if lossy and c_lapped(&self.r, self.r.next):
                continue
            if rc < 0:
                corrupt("a message's length")
            return True
        raise Overrun(f"the writer lapped this reader {PATIENCE} times in a row: make the ring larger", 0)

    cdef object take(self, zs_message *m):
        """A copy of the message, released; None where it was lapped meanwhile."""
        cdef bytes held
        if m.length < <uint64_t>LONG:
            held = PyBytes_FromStringAndSize(<char *>m.at, m.length)
        else:
            held = PyBytes_FromStringAndSize(NULL, m.length)
            copy(self, PyBytes_AS_STRING(held), m.at, m.length)
        if self.r.ring.on_full == OVERWRITE and c_lapped(&self.r, self.r.next):
            return None
        self.step(m)
        return held

    cdef int step(self, zs_message *m) except -1:
        cdef uint64_t missed = c_message_step(&self.r, m)
        if missed:
            c_lose(&self.r, missed)
        self.r.next -= m.span
        return self.give_back(m.span, 1, None)

    cdef object read_one(self, object timeout, bint patient):
        cdef zs_message m
        cdef object held
        if self.state != USABLE:
            self.refuse()
        while True:
            if not self.find(&m, timeout, patient):
                if c_ended(&self.r):
                    raise EOFError("the writer closed the stream, and all was read")
                return None
            held = self.take(&m)
            if held is not None:
                return held

    def read(self, timeout=None):
        """The next message as bytes. Waits and raises as peek(); EOFError at the end of the stream."""
        return self.read_one(timeout, True)

    def try_read(self):
        """read(), or None where none waits now."""
        return self.read_one(None, False)

    def read_many(self, max=1024, timeout=None):
        """A list of 1 to *max* messages as bytes, once there are any; empty at the end of the stream."""
        cdef Py_ssize_t most = as_count(max, "max")
        cdef zs_message m
        cdef list got = []
        if self.state != USABLE:
            self.refuse()
        if most == 0:
            raise ValueError("max must be at least 1, not 0")
        if self.r.ring.on_full == OVERWRITE or self.deferred:
            return self.read_slowly(most, timeout)
        if not self.find(&m, timeout, True):
            return got
        try:
            while True:
                got.append(PyBytes_FromStringAndSize(<char *>m.at, m.length))
                c_message_step(&self.r, &m)
                if len(got) == most or self.r.next == self.r.head:
                    return got
                if c_message_next(&self.r, &m) < 0:
                    corrupt("a message's length")
        finally:
            c_give_back(&self.r, self.r.next, len(got))

    def read_slowly(self, most, timeout):
        """read_many() one by one, where the writer may lap or a device is waited for."""
        got = []
        try:
            got.append(self.read_one(timeout, True))
            while len(got) < most:
                message = self.read_one(None, False)
                if message is None:
                    break
                got.append(message)
        except EOFError:
            pass
        return got

    def read_into(self, buffer, timeout=None):
        """Copy the next message into *buffer*, writable and contiguous; return its bytes.

        Raises ValueError where it is longer, and keeps it then; EOFError at the end of the stream.
        """
        cdef zs_message m
        cdef Py_buffer view
        if self.state != USABLE:
            self.refuse()
        get_room(buffer, &view, 1, 1)
        try:
            while True:
                if not self.find(&m, timeout, True):
                    raise EOFError("the writer closed the stream, and all was read")
                if m.length > <uint64_t>view.len:
                    raise ValueError(f"the message has {m.length} bytes, and the buffer {view.len}")
                copy(self, view.buf, m.at, m.length)
                if self.r.ring.on_full != OVERWRITE or not c_lapped(&self.r, self.r.next):
                    self.step(&m)
                    return m.length
        finally:
            PyBuffer_Release(&view)

    def peek(self, timeout=None):
        """A window of the next message's bytes; a falsy one at the end of the stream (an empty message is true).

        Waits up to *timeout* seconds (None: for ever). Leaving the window's ``with`` releases
        it. Raises TimeoutError, PeerDead, and BufferError under another window.
        """
        cdef zs_message m
        if self.state != USABLE:
            self.refuse()
        return self.window(&m, self.find(&m, timeout, True))

    def try_peek(self):
        """peek(), or None where none waits now."""
        cdef zs_message m
        cdef bint found
        if self.state != USABLE:
            self.refuse()
        found = self.find(&m, None, False)
        return self.window(&m, found) if found or c_ended(&self.r) else None

    cdef Window window(self, zs_message *m, bint found):
        cdef Peek window = Peek.__new__(Peek)
        if not found:
            lend(window, self, self.r.ring.data, self.r.next, 0)
            window.truth = False
            return window
        lend(window, self, m.at, self.r.next, m.length)
        window.message = m[0]
        return window

    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1:
        cdef uint64_t missed
        self.state = USABLE
        if not window.truth:
            return 0
        missed = c_message_step(&self.r, &window.message)
        if missed:
            c_lose(&self.r, missed)
        self.r.next -= window.message.span
        return self.give_back(window.message.span, 1, after)

    def skip(self, n=None):
        """Release up to *n* of the messages that wait now (None: all) without copying; return how many."""
        cdef Py_ssize_t most = -1 if n is None else as_count(n, "n"), done = 0
        cdef zs_message m
        if self.state != USABLE:
            self.refuse()
        while done != most and self.find(&m, None, False):
            self.step(&m)
            done += 1
        return done

    @property
    def available(self):
        """The messages that wait now."""
        cdef zs_message m
        cdef uint64_t last
        if self.state <= 0:
            self.refuse()
        if self.state == USABLE and not self.find(&m, None, False) or self.r.head == self.r.next:
            return 0
        if c_message_next(&self.r, &m) < 0:
            return 1
        last = load_u64(&self.r.ring.control.sequence) - m.sequence
        return last if after(last, 1) else 1

    def __next__(self):
        try:
            return self.read_one(None, True)
        except EOFError:
            raise StopIteration from None


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
            raise Overrun(f"the writer overwrote {missed} of the window's items while they were read", missed)

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

    def __exit__(self, kind, *rest):
        cdef uint64_t missed
        if self.is_open():
            missed = self.missed()
            self.end.finish(self, True, self.items, None)
            if missed and kind is None:
                raise Overrun(f"the writer overwrote {missed} of the window's items while they were read", missed)
