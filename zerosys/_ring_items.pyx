"""Writer and reader of a ring of items of one dtype."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.string cimport memcpy

from zerosys._args cimport as_count
from zerosys._ring cimport (
    BLOCK, OVERWRITE, RingMemory, c_clock, c_commit, c_lapped, c_observe, c_writer_room, corrupt,
    deadline_of, int64_t, load_u64, ring_at)
from zerosys._ring_end cimport BUSY, LENT, USABLE, lend
from zerosys._ring_reader cimport PATIENCE, Peek, copy, get_room, outrun
from zerosys._ring_writer cimport Claim

cdef extern from "Python.h":
    bint PyObject_CheckBuffer(object thing)


@cython.auto_pickle(False)
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
        if (<uint64_t>count <= self.w.ring.limit - (self.w.head - self.w.floor)
                or self.room(count, timeout, patient)):
            window = Claim.__new__(Claim)
            lend(window, self, ring_at(&self.w.ring, self.w.head), self.w.head, count)
            return window
        return self.lend_scratch(count, count * <Py_ssize_t>self.w.ring.item_size) if patient else None

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
            done = self.put(<const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), timeout,
                            patient)
            return None if done < 0 else done
        get_items(data, &view, self.memory)
        try:
            done = self.put(<const unsigned char *>view.buf, view.len, timeout, patient)
        finally:
            PyBuffer_Release(&view)
        return None if done < 0 else done

    cdef Py_ssize_t put(self, const unsigned char *data, Py_ssize_t nbytes, object timeout,
                        bint patient) except -2:
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

    cdef Py_ssize_t put_parts(self, const unsigned char *data, uint64_t n, object timeout,
                              bint patient) except -2:
        """More items than the ring holds, as they fit."""
        cdef uint64_t done = 0, part
        cdef int64_t deadline = deadline_of(timeout)
        if self.w.ring.on_full != BLOCK or not patient:
            raise ValueError(f"{n} items never fit at once: the ring's limit is {self.w.ring.limit}; write "
                             "them in parts")
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
        self.state = BUSY  # what makes the parts may not use the writer in between
        try:
            for part in parts:
                if self.state != BUSY:
                    self.refuse()
                get_items(part, &view, self.memory)
                try:
                    n = <uint64_t>view.len // size
                    if n * size != <uint64_t>view.len:
                        raise ValueError(f"each part must be whole items of {size} bytes, not {view.len}")
                    if n + ahead <= self.w.ring.limit - (self.w.head - self.w.floor):
                        memcpy(ring_at(&self.w.ring, self.w.head + ahead), view.buf, view.len)
                        ahead += n
                        done += n
                    else:
                        if ahead:
                            c_commit(&self.w, ahead)
                            ahead = 0
                        done += self.put(<const unsigned char *>view.buf, view.len, timeout, True)
                        self.state = BUSY  # which a wait for room has ended
                finally:
                    PyBuffer_Release(&view)
        except BaseException as stopped:
            stopped.moved = done
            raise
        finally:
            if self.state == BUSY:
                self.state = USABLE
            if ahead and self.state == USABLE:
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
    except (BufferError, ValueError) as refusal:  # numpy's is the latter
        raise TypeError(f"data must be a contiguous buffer: {refusal}") from None
    size = view.itemsize
    if size != 1 and size != memory.element_size and size != <Py_ssize_t>memory.ring.item_size:
        PyBuffer_Release(view)
        raise TypeError(f"data has items of {size} bytes, and the ring's have {memory.ring.item_size}: "
                        "convert it, or pass its bytes (memoryview(data).cast('B'))")
    return 0


@cython.auto_pickle(False)
cdef class StreamReader(Reader):
    """A reader of a StreamRing, made by its reader(): a context manager that frees its slot at exit.

    Counts are items of the ring's dtype. Iterating yields blocks of what waits: windows, each
    released at the next step; numpy arrays, copies, in overwrite mode. Not for two threads at once.
    """

    def peek(self, n, timeout=None):
        """A window of *n* items, all or none; at the end of the stream shorter, and then empty and falsy.

        Waits up to *timeout* seconds (None: for ever). A writer that claims more at once than
        is left beside *n* would wait for ever too: peek_some() takes what there is. Leaving the
        window's ``with`` releases it, whatever happened there. Raises ValueError for more than
        the ring's limit, TimeoutError, PeerDead, and BufferError under another window.
        """
        cdef Py_ssize_t count = as_count(n, "n")
        if self.state != USABLE:
            self.refuse()
        self.fits(count)
        if (self.r.head - self.r.next < <uint64_t>count or self.r.ring.on_full == OVERWRITE
                or self.deferred):
            self.ready(count, timeout)
        return self.window(count)

    def peek_some(self, max=None, timeout=None):
        """A window of 1 to *max* items (None: all that wait), once there are any; empty at the end."""
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
        if self.state != USABLE:
            self.refuse()
        self.fits(count)
        if not self.poll(count):
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
        # The head may be any count in overwrite mode, where nothing bounds how far a writer gets.
        waiting = min(min(n, self.r.ring.limit), self.r.head - self.r.next)
        lend(window, self, ring_at(&self.r.ring, self.r.next), self.r.next, waiting)
        window.truth = waiting != 0
        return window

    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1:
        if n:
            self.give_back(n, n, after)
        self.state = USABLE
        self.delivered = 0
        return 0

    def read_into(self, buffer, timeout=None):
        """Fill *buffer*, writable, contiguous and of whole items; return how many, fewer only at the end.

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
                left = timeout if deadline < 0 or not done else max(deadline - c_clock(), 0) / 1e9
                got = self.copy_out(<unsigned char *>view.buf + done * size,
                                    min(want - done, self.r.ring.limit), left)
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
        """Copy and release what waits of n items, once any do; none at the end."""
        cdef uint64_t waiting
        cdef int _turn
        cdef bint lossy = self.r.ring.on_full == OVERWRITE
        for _turn in range(PATIENCE):
            if self.r.head - self.r.next < n:
                if c_observe(&self.r) < 0:
                    corrupt("the writer's head")
            if self.r.head == self.r.next or lossy or self.deferred:
                self.ready(1, timeout)
            waiting = min(n, self.r.head - self.r.next)
            copy(self, to, ring_at(&self.r.ring, self.r.next), waiting * self.r.ring.item_size)
            if lossy and c_lapped(&self.r, self.r.next):
                continue
            if waiting:
                self.give_back(waiting, waiting, None)
            return waiting
        outrun()

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
        waiting = min(min(most, self.r.ring.limit), self.r.head - self.r.next)
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
        if self.r.ring.on_full != OVERWRITE:
            return self.block(self.peek_some())
        for _turn in range(PATIENCE):
            self.ready(1, None)
            block = self.copied_block()
            if block is not None:
                return block
        outrun()

    def next_now(self):
        """The next block of an iteration, or None where it would wait; StopIteration at the end."""
        if self.delivered or self.state != USABLE:
            self.step_on()
        if not self.poll(1):
            return None
        if self.r.ring.on_full != OVERWRITE:
            return self.block(self.window(self.r.ring.limit))
        return self.copied_block()

    cdef object block(self, Window window):
        """*window* as a step of an iteration."""
        if not window.items:
            self.state = USABLE
            raise StopIteration
        self.delivered = window.items
        return window

    cdef object copied_block(self):
        """A copy, released, of what waits; None where it was lapped meanwhile."""
        import numpy

        cdef Py_buffer view
        cdef uint64_t n = min(self.r.head - self.r.next, self.r.ring.limit // 4 + 1)
        if n == 0:
            raise StopIteration
        held = numpy.empty(n * self.r.ring.item_size, numpy.uint8)
        get_room(held, &view, 1, 1)
        copy(self, view.buf, ring_at(&self.r.ring, self.r.next), view.len)
        PyBuffer_Release(&view)
        if c_lapped(&self.r, self.r.next):
            return None
        self.give_back(n, n, None)
        return held.view(self.memory.dtype).reshape(-1, *self.memory.item_shape)
