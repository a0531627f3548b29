"""The writer of a ring: windows to fill, and calls that copy in."""

cimport cython
from cpython.buffer cimport PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from libc.errno cimport EINTR
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from zerosys._args cimport as_count
from zerosys._ring cimport *

from zerosys._ring import Full, PeerDead

cdef extern from "Python.h":
    bint PyObject_CheckBuffer(object thing)

# From here on other threads may run while bytes are copied.
cdef Py_ssize_t LONG = 256 << 10
cdef int64_t SELDOM = SLICE


cdef class Writer(End):
    """What the writers of items and of messages have in common; made by ring.writer()."""

    def __init__(self, RingMemory memory, data, control_fd, *, spin=None):
        cdef int control = self.prepare(memory, data, True, control_fd, spin)
        cdef int rc = c_writer_open(&self.w, &memory.ring, self.fd, &self.place)
        pid = load_u32(&memory.ring.control.peer.pid)
        self.settle(rc, f"the ring has a writer, process {pid}: there is one at a time")
        self.seen = 0

    def __dealloc__(self):
        pass  # the lock goes with End, and readers then see a writer that died

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
        cdef int rc = c_writer_look(&self.w, self.ask(), self.place.own_fd, n, self.w.ring.on_dead == EVICT, &slot)
        if rc == -EOWNERDEAD:
            if not tell:
                return 0
            pid = load_u32(&self.w.ring.slots[slot].peer.pid)
            dead = PeerDead(EOWNERDEAD, f"the reader of slot {slot}, process {pid}, died, and the ring is full of what it did "
                            "not read: start another reader, which goes on there, or call evict_dead()")
            dead.pid = pid
            raise dead
        return max(rc, 0)

    cdef int drop(self, uint64_t n) except -1:
        add_u64(&self.w.ring.control.lost, n)
        return 0

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


cdef class StreamWriter(Writer):
    """The writer of a StreamRing, made by its writer(): a context manager that closes at exit.

    Counts are items of the ring's dtype. Not for two threads at once.
    """

    def claim(self, n, timeout=None):
        """A window of *n* items to fill, once there is room: a context manager that commits at its end.

        Waits up to *timeout* seconds (None: for ever) where on_full is "block". An exception
        in the window's ``with`` aborts it. With "drop" and no room it is a window all the
        same, whose items go nowhere and are counted as lost. Raises ValueError for more
        than the ring's limit, Full, TimeoutError, PeerDead, and BufferError under another window.
        """
        return self.claim_window(n, timeout, True)

    def try_claim(self, n):
        """claim(), or None where there is no room now."""
        return self.claim_window(n, None, False)

    cdef Window claim_window(self, object n, object timeout, bint patient):
        cdef Py_ssize_t count = as_count(n, "n")
        cdef Claim window
        if self.state != USABLE:
            self.refuse()
        if count == 0:
            raise ValueError("n must be at least 1, not 0")
        if <uint64_t>count <= self.w.ring.limit - (self.w.head - self.w.floor) or self.room(count, timeout, patient):
            window = Claim.__new__(Claim)
            lend(window, self, ring_at(&self.w.ring, self.w.head), self.w.head, count)
            return window
        if not patient:
            return None
        scratch = bytearray(count * self.w.ring.item_size)
        window = Claim.__new__(Claim)
        lend(window, self, <unsigned char *>PyByteArray_AS_STRING(scratch), self.w.head, count)
        window.scratch = scratch
        return window

    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1:
        self.state = USABLE
        if keep and n:
            if window.scratch is not None:
                return self.drop(n)
            c_commit(&self.w, n)
        return 0

    def write(self, data, timeout=None):
        """Copy the items of *data*, a contiguous buffer, in; return how many.

        All or none, unless they are more than the ring holds: then (on_full="block") they
        go in by parts, and an exception has ``moved``, the items that went. 0 are dropped
        items. Waits and raises as claim(); ValueError where *data* is no whole items.
        """
        return self.write_buffer(data, timeout, True)

    def try_write(self, data):
        """write(), or None where there is no room now for all of it."""
        return self.write_buffer(data, None, False)

    cdef object write_buffer(self, object data, object timeout, bint patient):
        cdef Py_buffer view
        cdef Py_ssize_t done
        if self.state != USABLE:
            self.refuse()
        if PyBytes_CheckExact(data):
            done = self.put(<const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), timeout, patient)
            return None if done < 0 else done
        get_items(data, &view, self.memory)
        try:
            done = self.put(<const unsigned char *>view.buf, view.len, timeout, patient)
        finally:
            PyBuffer_Release(&view)
        return None if done < 0 else done

    cdef Py_ssize_t put(self, const unsigned char *data, Py_ssize_t nbytes, object timeout, bint patient) except -2:
        """The items put; -1 where they were only tried and do not fit."""
        cdef Py_ssize_t size = <Py_ssize_t>self.w.ring.item_size
        cdef uint64_t n = <uint64_t>(nbytes // size) if size != 1 else <uint64_t>nbytes
        if <Py_ssize_t>n * size != nbytes:
            raise ValueError(f"data must be whole items of {size} bytes, not {nbytes} bytes")
        if n > self.w.ring.limit - (self.w.head - self.w.floor):
            if n > self.w.ring.limit:
                return self.put_parts(data, n, timeout, patient)
            if not self.room(n, timeout, patient):
                return self.drop(n) if patient else -1
        self.copy_in(ring_at(&self.w.ring, self.w.head), data, nbytes)
        if n:
            c_commit(&self.w, n)
        return n

    cdef Py_ssize_t put_parts(self, const unsigned char *data, uint64_t n, object timeout, bint patient) except -2:
        """More items than the ring holds, as they fit."""
        cdef uint64_t done = 0, part
        cdef int64_t deadline = deadline_of(timeout)
        if self.w.ring.on_full != BLOCK or not patient:
            raise ValueError(f"{n} items never fit at once: the ring's limit is {self.w.ring.limit}; write them in parts")
        try:
            while done < n:
                part = min(n - done, self.w.ring.limit // 2 + 1)
                if part > self.w.ring.limit - (self.w.head - self.w.floor):
                    self.room(part, None if deadline < 0 else max(deadline - c_clock(), 0) / 1e9, True)
                self.copy_in(ring_at(&self.w.ring, self.w.head), data + done * self.w.ring.item_size,
                             part * self.w.ring.item_size)
                c_commit(&self.w, part)
                done += part
        except BaseException as stopped:
            stopped.moved = done
            raise
        return done

    def write_many(self, parts, timeout=None):
        """Copy in one contiguous array, as write(), or each buffer of a list; return the items.

        The parts of a list are published together as far as they fit, so this is the fast way
        for many small ones. Waits and raises as write() for each.
        """
        if self.state != USABLE:
            self.refuse()
        if PyObject_CheckBuffer(parts):
            return self.write_buffer(parts, timeout, True)
        return self.put_list(parts, timeout)

    cdef Py_ssize_t put_list(self, object parts, object timeout) except -1:
        cdef uint64_t ahead = 0, n, size = self.w.ring.item_size
        cdef Py_ssize_t done = 0
        cdef Py_buffer view
        try:
            for part in parts:
                get_items(part, &view, self.memory)
                try:
                    n = <uint64_t>view.len // size
                    if n * size != <uint64_t>view.len:
                        raise ValueError(f"each part must be whole items of {size} bytes, not {view.len} bytes")
                    if n + ahead <= self.w.ring.limit - (self.w.head - self.w.floor):
                        memcpy(ring_at(&self.w.ring, self.w.head + ahead), view.buf, view.len)
                        ahead += n
                        done += n
                    else:
                        if ahead:
                            c_commit(&self.w, ahead)
                            ahead = 0
                        done += self.put(<const unsigned char *>view.buf, view.len, timeout, True)
                finally:
                    PyBuffer_Release(&view)
        except BaseException as stopped:
            stopped.moved = done
            raise
        finally:
            if ahead:
                c_commit(&self.w, ahead)
        return done

    @property
    def room_now(self):
        """The items that a claim would get without waiting."""
        if self.state != USABLE and self.state != LENT:
            self.refuse()
        if self.w.ring.on_full == OVERWRITE:
            return self.w.ring.limit
        if c_writer_room(&self.w, self.w.ring.limit) < 0:
            corrupt("a reader's tail")
        return self.w.ring.limit - (self.w.head - self.w.floor)


cdef int get_items(object data, Py_buffer *view, RingMemory memory) except -1:
    """The bytes of *data*, contiguous, whose items are bytes or of the ring's size."""
    cdef Py_ssize_t size
    try:
        PyObject_GetBuffer(data, view, PyBUF_C_CONTIGUOUS)
    except BufferError as refusal:
        raise TypeError(f"data must be a contiguous buffer: {refusal}") from None
    size = view.itemsize
    if size != 1 and size != memory.element_size and size != <Py_ssize_t>memory.ring.item_size:
        PyBuffer_Release(view)
        raise TypeError(f"data has items of {size} bytes, and the ring's have {memory.ring.item_size}: convert it, "
                        "or pass its bytes (memoryview(data).cast('B'))")
    return 0


cdef class MessageWriter(Writer):
    """The writer of a MessageRing, made by its writer(): a context manager that closes at exit.

    Not for two threads at once.
    """

    def claim(self, length, timeout=None):
        """A window of *length* bytes, one message, once there is room: it commits at the end of its ``with``.

        ``commit(n)`` makes it shorter. Waits and raises as StreamWriter.claim().
        """
        return self.claim_window(length, timeout, True)

    def try_claim(self, length):
        """claim(), or None where there is no room now."""
        return self.claim_window(length, None, False)

    cdef Window claim_window(self, object length, object timeout, bint patient):
        cdef Py_ssize_t count = as_count(length, "length")
        cdef Claim window
        if self.state != USABLE:
            self.refuse()
        self.fits(count)
        if self.room(c_message_span(&self.w.ring, count), timeout, patient):
            window = Claim.__new__(Claim)
            lend(window, self, c_message_place(&self.w, 0, count), self.w.head, count)
            return window
        if not patient:
            return None
        scratch = bytearray(count)
        window = Claim.__new__(Claim)
        lend(window, self, <unsigned char *>PyByteArray_AS_STRING(scratch), self.w.head, count)
        window.scratch = scratch
        return window

    cdef int fits(self, Py_ssize_t length) except -1:
        if <uint64_t>length > self.memory.header.capacity:
            raise ValueError(f"a message has at most the ring's capacity of {self.memory.header.capacity} bytes, "
                             f"not {length}")
        return 0

    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1:
        self.state = USABLE
        if keep:
            if window.scratch is not None:
                return self.drop(1)
            c_message_commit(&self.w, c_message_lay(&self.w, 0, window.items, n))
        return 0

    def write(self, data, timeout=None):
        """Send *data*, bytes or a contiguous buffer, as one message. Returns whether it went (False: dropped).

        Waits and raises as claim().
        """
        return self.write_buffer(data, timeout, True)

    def try_write(self, data):
        """write(), or None where there is no room now."""
        return self.write_buffer(data, None, False) or None

    cdef bint write_buffer(self, object data, object timeout, bint patient) except -1:
        cdef Py_buffer view
        if self.state != USABLE:
            self.refuse()
        if PyBytes_CheckExact(data):
            return self.put(<const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), timeout, patient)
        get_bytes(data, &view)
        try:
            return self.put(<const unsigned char *>view.buf, view.len, timeout, patient)
        finally:
            PyBuffer_Release(&view)

    cdef int put(self, const unsigned char *data, Py_ssize_t length, object timeout, bint patient) except -1:
        cdef uint64_t span
        if <uint64_t>length > self.memory.header.capacity:
            self.fits(length)
        span = c_message_span(&self.w.ring, length)
        if span > self.w.ring.limit - (self.w.head - self.w.floor) and not self.room(span, timeout, patient):
            if patient:
                self.drop(1)
            return 0
        self.copy_in(c_message_place(&self.w, 0, length), data, length)
        c_message_commit(&self.w, c_message_lay(&self.w, 0, length, length))
        return 1

    def write_many(self, messages, timeout=None):
        """Send each of a list of buffers, or each row of one contiguous array, as a message; return how many went.

        They are published together as far as they fit. Waits and raises as write() for each;
        an exception has ``moved``, the messages that went.
        """
        if self.state != USABLE:
            self.refuse()
        if PyObject_CheckBuffer(messages):
            return self.put_rows(messages, timeout)
        return self.put_list(messages, timeout)

    cdef Py_ssize_t put_list(self, object messages, object timeout) except -1:
        cdef uint64_t ahead = 0
        cdef Py_ssize_t done = 0
        cdef Py_buffer view
        try:
            for message in messages:
                if PyBytes_CheckExact(message):
                    done += self.lay(&ahead, <const unsigned char *>PyBytes_AS_STRING(message),
                                     PyBytes_GET_SIZE(message), timeout)
                else:
                    get_bytes(message, &view)
                    try:
                        done += self.lay(&ahead, <const unsigned char *>view.buf, view.len, timeout)
                    finally:
                        PyBuffer_Release(&view)
        except BaseException as stopped:
            stopped.moved = done
            raise
        finally:
            if ahead:
                c_message_commit(&self.w, ahead)
        return done

    cdef Py_ssize_t put_rows(self, object array, object timeout) except -1:
        cdef uint64_t ahead = 0
        cdef Py_ssize_t done = 0, row, rows
        cdef Py_buffer view
        try:
            PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS)
        except BufferError as refusal:
            raise TypeError(f"messages must be a list, or a contiguous array of rows: {refusal}") from None
        try:
            rows = view.shape[0] if view.ndim else 1
            row = view.len // rows if rows else 0
            for i in range(rows):
                done += self.lay(&ahead, <const unsigned char *>view.buf + i * row, row, timeout)
        except BaseException as stopped:
            stopped.moved = done
            raise
        finally:
            if ahead:
                c_message_commit(&self.w, ahead)
            PyBuffer_Release(&view)
        return done

    cdef int lay(self, uint64_t *ahead, const unsigned char *data, Py_ssize_t length, object timeout) except -1:
        """Put one message after those that are not published yet; where it does not fit, publish these first."""
        cdef uint64_t span
        self.fits(length)
        span = c_message_span(&self.w.ring, length)
        if span + ahead[0] > self.w.ring.limit - (self.w.head - self.w.floor):
            if ahead[0]:
                c_message_commit(&self.w, ahead[0])
                ahead[0] = 0
            return self.put(data, length, timeout, True)
        memcpy(c_message_place(&self.w, ahead[0], length), data, length)
        ahead[0] += c_message_lay(&self.w, ahead[0], length, length)
        return 1

    @property
    def largest(self):
        """The bytes of the longest message that fits when the ring is empty: its capacity."""
        return self.memory.header.capacity


cdef int get_bytes(object data, Py_buffer *view) except -1:
    try:
        PyObject_GetBuffer(data, view, 0)
    except BufferError as refusal:
        raise TypeError(f"a message must be a contiguous buffer: {refusal}") from None
    return 0


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

    def __exit__(self, kind, *rest):
        if self.is_open():
            self.end.finish(self, kind is None, self.items, None)
