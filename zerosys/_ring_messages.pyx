"""Writer and reader of a ring of messages."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from zerosys._args cimport as_count
from zerosys._ring cimport (
    OVERWRITE, c_ended, c_give_back, c_lapped, c_lose, c_message_commit, c_message_lay,
    c_message_next, c_message_place, c_message_span, c_message_step, c_observe, comes_after, corrupt,
    load_u64)
from zerosys._ring_end cimport BUSY, USABLE, lend
from zerosys._ring_reader cimport PATIENCE, Peek, copy, get_room, outrun
from zerosys._ring_writer cimport Claim

cdef extern from "Python.h":
    bint PyObject_CheckBuffer(object thing)

cdef Py_ssize_t LONG = 256 << 10  # from here on other threads may run while bytes are copied


@cython.auto_pickle(False)
cdef class MessageWriter(Writer):
    """The writer of a MessageRing, made by its writer(): a context manager that closes at exit.

    Not for two threads at once.
    """

    def claim(self, length, timeout=None):
        """A window of *length* bytes, one message, once there is room; it commits at its ``with``'s end.

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
        return self.lend_scratch(count, count) if patient else None

    cdef int fits(self, Py_ssize_t length) except -1:
        if <uint64_t>length > self.memory.header.capacity:
            raise ValueError(f"a message has at most the ring's capacity of {self.memory.header.capacity} "
                             f"bytes, not {length}")
        return 0

    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1:
        self.state = USABLE
        if keep:
            if window.scratch is not None:
                return self.drop(1)
            c_message_commit(&self.w, c_message_lay(&self.w, 0, window.items, n))
        return 0

    def write(self, data, timeout=None):
        """Send *data*, bytes or a contiguous buffer, as one message; return whether it went, or was dropped.

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
            return self.put(<const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), timeout,
                            patient)
        get_bytes(data, &view)
        try:
            return self.put(<const unsigned char *>view.buf, view.len, timeout, patient)
        finally:
            PyBuffer_Release(&view)

    cdef int put(self, const unsigned char *data, Py_ssize_t length, object timeout,
                 bint patient) except -1:
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
        """Send each of a list of buffers, or each row of one contiguous array, as a message.

        Returns how many went. They are published together as far as they fit. Waits and raises as
        write() for each; an exception has ``moved``, the messages that went.
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
        self.state = BUSY  # what makes the messages may not use the writer in between
        try:
            for message in messages:
                if self.state != BUSY:
                    self.refuse()
                if PyBytes_CheckExact(message):
                    done += self.lay(&ahead, <const unsigned char *>PyBytes_AS_STRING(message),
                                     PyBytes_GET_SIZE(message), timeout)
                else:
                    get_bytes(message, &view)
                    try:
                        done += self.lay(&ahead, <const unsigned char *>view.buf, view.len, timeout)
                    finally:
                        PyBuffer_Release(&view)
                self.state = BUSY  # which a wait for room has ended
        except BaseException as stopped:
            stopped.moved = done
            raise
        finally:
            if self.state == BUSY:
                self.state = USABLE
            if ahead and self.state == USABLE:
                c_message_commit(&self.w, ahead)
        return done

    cdef Py_ssize_t put_rows(self, object array, object timeout) except -1:
        cdef uint64_t ahead = 0
        cdef Py_ssize_t done = 0, i, row, rows
        cdef Py_buffer view
        try:
            PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS)
        except (BufferError, ValueError) as refusal:  # numpy's is the latter
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

    cdef int lay(self, uint64_t *ahead, const unsigned char *data, Py_ssize_t length,
                 object timeout) except -1:
        """Put one message after those not yet published; where it does not fit, publish these first."""
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
    except (BufferError, ValueError) as refusal:  # numpy's is the latter
        raise TypeError(f"a message must be a contiguous buffer: {refusal}") from None
    return 0


@cython.auto_pickle(False)
cdef class MessageReader(Reader):
    """A reader of a MessageRing, made by its reader(): a context manager that frees its slot at exit.

    Iterating yields each message as bytes, until the end of the stream. Not for two threads at once.
    """

    cdef bint find(self, zs_message *m, object timeout, bint patient) except -1:
        """The next message, once there is one: False at the end, or (not *patient*) where it would wait."""
        cdef int rc, _turn
        cdef bint lossy = self.r.ring.on_full == OVERWRITE
        for _turn in range(PATIENCE):
            if self.r.head == self.r.next or lossy or self.deferred:
                if patient:
                    self.ready(1, timeout)
                else:
                    self.poll(1)
                if self.r.head == self.r.next:
                    return False
            rc = c_message_next(&self.r, m)
            if lossy and c_lapped(&self.r, self.r.next):
                continue
            if rc < 0:
                corrupt("a message's length")
            return True
        outrun()

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

    cdef int step(self, zs_message *m, object device=None) except -1:
        """Step over the message, count what was lost before it, and give it back."""
        cdef uint64_t missed = c_message_step(&self.r, m)
        if missed:
            c_lose(&self.r, missed)
        self.r.next -= m.span  # give_back() goes there
        return self.give_back(m.span, 1, device)

    cdef object read_one(self, object timeout, bint patient):
        cdef zs_message m
        cdef object held
        cdef int _turn
        if self.state != USABLE:
            self.refuse()
        for _turn in range(PATIENCE):
            if not self.find(&m, timeout, patient):
                if c_ended(&self.r):
                    raise EOFError("the writer closed the stream, and all was read")
                return None
            held = self.take(&m)
            if held is not None:
                return held
        outrun()

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
        if c_observe(&self.r) < 0:  # also what came since the last look
            corrupt("the writer's head")
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
        cdef int _turn
        if self.state != USABLE:
            self.refuse()
        get_room(buffer, &view, 1, 1)
        try:
            for _turn in range(PATIENCE):
                if not self.find(&m, timeout, True):
                    raise EOFError("the writer closed the stream, and all was read")
                if m.length > <uint64_t>view.len:
                    raise ValueError(f"the message has {m.length} bytes, and the buffer {view.len}")
                copy(self, view.buf, m.at, m.length)
                if self.r.ring.on_full != OVERWRITE or not c_lapped(&self.r, self.r.next):
                    self.step(&m)
                    return m.length
            outrun()
        finally:
            PyBuffer_Release(&view)

    def peek(self, timeout=None):
        """A window of the next message's bytes; falsy at the end of the stream (no empty message is).

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
        if window.truth:
            self.step(&window.message, after)
        self.state = USABLE
        return 0

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
        if load_u64(&self.r.ring.control.head) == self.r.next:
            return 0
        if self.state == USABLE and not self.find(&m, None, False) or self.r.head == self.r.next:
            return 0
        if c_message_next(&self.r, &m) < 0:
            return 1
        last = load_u64(&self.r.ring.control.sequence) - m.sequence
        return last if comes_after(last, 1) else 1

    def next_now(self):
        """The next message, or None where none waits now; StopIteration at the end."""
        try:
            return self.read_one(None, False)
        except EOFError:
            raise StopIteration from None

    def __next__(self):
        try:
            return self.read_one(None, True)
        except EOFError:
            raise StopIteration from None
