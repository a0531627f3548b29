"""The memory of a ring, checked; what its two ends have in common; and the windows they lend."""

cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.float cimport PyFloat_AsDouble
from cpython.ref cimport Py_DECREF
from libc.errno cimport EAGAIN, EPIPE, EPROTO
from libc.string cimport memcpy, memset

from zerosys._args cimport as_count, as_fd
from zerosys._result cimport fail, interrupted, or_errno

import struct
from errno import EBUSY

cdef extern from "<fcntl.h>" nogil:
    int F_DUPFD_CLOEXEC
    int fcntl(int fd, int command, ...)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef extern from "_ring_fork.h":
    void keep_end "zs_keep"(zs_keep *keep, int *own_fd, int *state)
    void unkeep_end "zs_unkeep"(zs_keep *keep)
    int watch_forks "zs_watch_forks"()

# What memoryview reads by itself, and struct knows the size of: an item of another size would let it
# read past the end.
cdef str NATIVE = "cbB?hHiIlLqQnNfdePs"
cdef tuple ON_FULL = ("block", "raise", "drop", "overwrite")
cdef tuple ON_DEAD = ("raise", "evict")
cdef tuple ALIVE_WORDS = ("dead", "alive", "unknown")

if watch_forks() < 0:
    raise MemoryError("pthread_atfork")


class Full(Exception):
    """The ring has no room for the claim, and on_full="raise" says not to wait."""


class PeerDead(ConnectionError):
    """The process at the other end died; ``pid`` is its number in its own pid namespace."""

    pid = None


class RingCorrupt(ValueError):
    """The shared memory says what no honest peer writes. Nothing of it was used."""


class Overrun(Exception):
    """The writer overwrote a window while it was read; ``lost`` counts its items that are gone."""

    def __init__(self, text="", lost=0):
        super().__init__(text)
        self.lost = lost

    def __reduce__(self):
        return type(self), (*self.args, self.lost)


cdef int corrupt(str what) except -1:
    raise RingCorrupt(f"{what}: a peer wrote what no honest one writes; make a new ring")


cdef int64_t deadline_of(object timeout) except? -2:
    """CLOCK_MONOTONIC nanoseconds at which *timeout* seconds are over; -1 for None."""
    cdef double seconds
    if timeout is None:
        return -1
    seconds = PyFloat_AsDouble(timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout must be None or a number of seconds >= 0, not {timeout!r}")
    # 30 years: more would overflow, and nobody waits.
    return c_clock() + <int64_t>(min(seconds, 1e9) * 1e9)


def control_bytes(slots):
    """The bytes of header, counters and *slots* readers' slots."""
    return control_size(<uint32_t>as_count(slots, "slots"))


def format_control(control, *, kind, on_full, on_dead, slots, size, capacity, limit, item_size, data_id,
                   start=0, element="B", shape=()):
    """Make the zeroed buffer *control* the control block of a ring; every number is checked by RingMemory.

    *element* is the PEP 3118 format of an item's element, and *shape* an item's lengths.
    Raises ValueError for a format that is too long and a shape of too many lengths.
    """
    cdef zs_ring_header header
    cdef Py_buffer view
    cdef bytes text = element.encode()
    memset(&header, 0, sizeof(header))
    if len(text) > FORMAT_ROOM or len(shape) > MOST_DIMS:
        raise ValueError(f"the dtype takes {len(text)} bytes to describe in {len(shape)} dimensions, more than "
                         f"{FORMAT_ROOM} bytes in {MOST_DIMS}: use fewer or shorter field names")
    if not 1 <= slots <= MOST_SLOTS:
        raise ValueError(f"readers must be 1 to {MOST_SLOTS}, not {slots}")
    header.kind, header.slots = kind, slots
    header.on_full, header.on_dead = word(on_full, ON_FULL, "on_full"), word(on_dead, ON_DEAD, "on_dead")
    header.size, header.capacity, header.limit = size, capacity, limit
    header.item_size, header.start = item_size, start
    header.data_device, header.data_inode = data_id
    header.format_length, header.dims = len(text), len(shape)
    for i in range(len(shape)):
        header.shape[i] = shape[i]
    memcpy(header.format, PyBytes_AS_STRING(text), len(text))
    PyObject_GetBuffer(control, &view, PyBUF_WRITABLE)
    try:
        if view.len < <Py_ssize_t>control_size(slots):
            raise ValueError(f"the control block takes {control_size(slots)} bytes, not {view.len}")
        c_format(<zs_ring_control *>view.buf, &header)
    finally:
        PyBuffer_Release(&view)


cdef uint32_t word(object text, tuple words, str name) except? 99:
    if text not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {text!r}")
    return words.index(text)


cdef class RingMemory:
    """The control block of a ring, in a buffer that is writable and stays leased until dropped.

    *data_size* are the bytes of the data file. Raises RingCorrupt for what is no ring, and
    BlockingIOError for one whose creator has not finished it.
    """

    def __init__(self, control, data_size):
        cdef const char *wrong
        if self.held:
            raise ValueError("this ring has its memory already")
        PyObject_GetBuffer(control, &self.view, PyBUF_WRITABLE)
        self.held = True
        wrong = c_check(<zs_ring_control *>self.view.buf, self.view.len, as_count(data_size, "data_size"),
                        &self.header, &self.ring)
        if wrong is not NULL:
            magic = self.header.magic
            self.drop_control()
            if magic == 0:
                raise BlockingIOError(EAGAIN, "the ring is not ready: its creator has not finished it, or died")
            raise RingCorrupt(f"this is no ring of zerosys, or of another version: {wrong.decode()}")
        try:
            self.describe()
        except BaseException:
            self.drop_control()
            raise

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef int describe(self) except -1:
        """Take over format and shape, if an item has the bytes that they say."""
        cdef uint64_t count = 1
        self.element = self.header.format[:self.header.format_length]
        for i in range(self.header.dims):
            if not 0 < self.header.shape[i] <= self.header.item_size // count:
                corrupt("an item's shape does not fit its size")
            count *= self.header.shape[i]
            self.dims[i] = self.header.shape[i]
        self.element_size = self.header.item_size // count
        if self.element_size * count != self.header.item_size or b"\0" in self.element or not self.element:
            corrupt("an item's format and shape do not fit its size")
        try:
            text = self.element.decode()
        except UnicodeDecodeError:
            corrupt("an item's format is no text")
        single = text.removeprefix("@")
        if single.lstrip("0123456789") in NATIVE and len(single) == 1:
            if struct.calcsize(single) != self.element_size:
                corrupt(f"an item of format {text} does not have {self.element_size} bytes")
        return 0

    def drop_control(self):
        """Give the lease of the control block back."""
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)

    cdef int check(self) except -1:
        if not self.held:
            raise ValueError("this ring is closed")
        return 0

    def __getbuffer__(self, Py_buffer *view, int wish):
        cdef Py_buffer lent
        self.check()
        PyObject_GetBuffer(self._lent(), &lent, wish)
        view.obj = <object>lent.obj  # the mapping's lease, which view now holds too
        view.buf, view.len, view.itemsize, view.readonly = lent.buf, lent.len, lent.itemsize, lent.readonly
        view.ndim, view.format, view.shape, view.strides = lent.ndim, lent.format, lent.shape, lent.strides
        view.suboffsets, view.internal = lent.suboffsets, lent.internal
        Py_DECREF(<object>lent.obj)

    def __releasebuffer__(self, Py_buffer *view):
        pass  # as Mapping's: numpy.frombuffer keeps a view only of a type that defines this

    def _lent(self):
        """The mapping of the data that views of the ring see."""
        raise BufferError("the control block alone has no data to lend")

    # -- what it is ------------------------------------------------------------------------

    @property
    def data_size(self):
        """The bytes of data, a power of two; they are mapped twice in a row."""
        return self.header.size

    @property
    def data_id(self):
        """Device and inode number of the data file."""
        return self.header.data_device, self.header.data_inode

    @property
    def kind(self):
        """"stream" or "messages"."""
        return "stream" if self.header.kind == STREAM else "messages"

    @property
    def capacity(self):
        """The bytes that were asked for."""
        return self.header.capacity

    @property
    def limit(self):
        """The most that may lie between the writer and a reader: items, or bytes of messages' records."""
        return self.header.limit

    @property
    def item_size(self):
        """The bytes of an item; 1 for messages."""
        return self.header.item_size

    @property
    def format(self):
        """An item's element, as PEP 3118 writes it."""
        return self.element.decode()

    @property
    def dtype(self):
        """The numpy dtype of an item's element."""
        import numpy

        return numpy.asarray(Nothing(self)).dtype

    @property
    def item_shape(self):
        """The lengths of an item that is itself an array; () for most."""
        return tuple([self.dims[i] for i in range(self.header.dims)])

    @property
    def slots(self):
        """How many readers there can be at the same time."""
        return self.header.slots

    @property
    def on_full(self):
        """"block", "raise", "drop" or "overwrite"."""
        return ON_FULL[self.header.on_full]

    @property
    def on_dead(self):
        """"raise" or "evict"."""
        return ON_DEAD[self.header.on_dead]

    # -- counters, for anybody ---------------------------------------------------------------

    def counters(self, control_fd):
        """The counters as they are now: a dict of the writer's, with "readers", a list of dicts.

        *control_fd* is a descriptor of the control file that no end of this process has, to
        ask who lives. Times are in seconds. They are read one by one, while others write.
        """
        self.check()
        cdef zs_ring_control *c = self.ring.control
        cdef int fd = as_fd(control_fd)
        cdef uint64_t head = load_u64(&c.head), start = self.ring.start
        readers = [self.reader_counters(i, fd, head) for i in range(self.ring.count)]
        there = load_u32(&c.state) != FREE
        return {
            "state": ALIVE_WORDS[<int>c_lives(fd, 0, &c.peer)] if there else "left",
            "pid": load_u32(&c.peer.pid),
            "closed": load_u32(&c.closed) != 0,
            "items": head - start if self.header.kind == STREAM else load_u64(&c.sequence),
            "bytes": (head - start) * self.ring.item_size,
            "lost": load_u64(&c.lost),
            "evicted": load_u64(&c.evicted),
            "high_water": load_u64(&c.high_water),
            "blocked": load_u64(&c.blocked) / 1e9,
            "readers": [reader for reader in readers if reader is not None],
        }

    cdef object reader_counters(self, uint32_t i, int fd, uint64_t head):
        """Those of slot i; None if it was never taken."""
        cdef zs_ring_slot *slot = &self.ring.slots[i]
        cdef bint here = load_u32(&slot.state) != FREE
        if not here and not load_u32(&slot.peer.pid):
            return None
        return {
            "slot": i,
            "state": ALIVE_WORDS[<int>c_lives(fd, 1 + i, &slot.peer)] if here else "left",
            "pid": load_u32(&slot.peer.pid),
            "items": load_u64(&slot.taken),
            "lost": load_u64(&slot.lost),
            "lag": head - load_u64(&slot.tail),
            "high_water": load_u64(&slot.high_water),
            "blocked": load_u64(&slot.blocked) / 1e9,
        }


@cython.auto_pickle(False)
@cython.final
cdef class Nothing:
    """A buffer of no elements of a ring, from which numpy reads their format."""

    cdef RingMemory memory
    cdef Py_ssize_t length

    def __init__(self, RingMemory memory not None):
        self.memory, self.length = memory, 0

    def __getbuffer__(self, Py_buffer *view, int wish):
        view.obj = self
        view.buf = PyBytes_AS_STRING(self.memory.element)
        view.len = 0
        view.itemsize = self.memory.element_size
        view.readonly = True
        view.ndim = 1
        view.format = PyBytes_AS_STRING(self.memory.element)
        view.shape = &self.length
        view.strides = &view.itemsize
        view.suboffsets = NULL
        view.internal = NULL


@cython.no_gc_clear
cdef class End:
    """What writer and reader have in common: a place in the ring, and its memory on lease."""

    def __cinit__(self):
        self.place.own_fd = self.fd = -1

    cdef int prepare(self, RingMemory memory, object data, bint writable, object control_fd, object spin) except -1:
        """Lease the memory; the place is taken next."""
        cdef int control = as_fd(control_fd)
        cdef ssize_t copy
        memory.check()
        if self.state != CLOSED or self.has_data:
            raise ValueError(f"this {type(self).__name__} is made already")
        self.spin = SPIN if spin is None else <int64_t>(min(max(PyFloat_AsDouble(spin), 0), 10) * 1e9)
        copy = or_errno(fcntl(control, F_DUPFD_CLOEXEC, 0))
        interrupted(copy, "fcntl(F_DUPFD_CLOEXEC)")
        self.fd = <int>copy
        PyObject_GetBuffer(data, &self.data, PyBUF_WRITABLE if writable else 0)
        self.has_data = True
        self.owner, self.memory = data, memory
        if self.data.len < 2 * <Py_ssize_t>memory.header.size:
            raise ValueError(f"the data must be mapped twice in a row, {2 * memory.header.size} bytes, "
                             f"not {self.data.len}")
        memory.ring.data = <unsigned char *>self.data.buf
        return control

    cdef int settle(self, int rc, str what) except -1:
        """What follows the taking of a place, which answered *rc*."""
        if rc == -EPROTO:
            corrupt(what)
        if rc == -EAGAIN:
            raise OSError(EBUSY, what)
        if rc == -EPIPE:
            raise ValueError("the stream has ended: its writer closed it; create a new ring")
        if rc < 0:
            fail(rc, "open(/proc/self/fd)")
        keep_end(&self.keep, &self.place.own_fd, &self.state)
        self.state = USABLE
        if self.place.own_fd >= 0:
            close(self.fd)
            self.fd = -1
        return 0

    cdef int ask(self) noexcept:
        """A descriptor of the control file to ask about others' locks."""
        return self.place.own_fd if self.place.own_fd >= 0 else self.fd

    cdef int refuse(self) except -1:
        """Say why the end may not be used now."""
        cdef str name = type(self).__name__.lower()
        if self.state == LENT:
            raise BufferError(f"a window of this {name} is open: leave its with, or commit or release it, first")
        if self.state == BUSY:
            raise ValueError(f"another thread is using this {name}: give each thread its own, or a lock")
        if self.state == FORKED:
            raise ValueError(f"this {name} belongs to the process that was forked: take another here")
        raise ValueError(f"this {name} is closed")

    cdef int vacate(self) except -1:
        """After the place was given up: give the memory back, at the latest with the last view."""
        self.state = CLOSED
        unkeep_end(&self.keep)
        if self.fd >= 0:
            close(self.fd)
        self.fd = -1
        if self.has_data and not self.exports:
            self.has_data = False
            PyBuffer_Release(&self.data)
        return 0

    def __dealloc__(self):
        unkeep_end(&self.keep)
        if self.place.own_fd >= 0:
            close(self.place.own_fd)
        if self.fd >= 0:
            close(self.fd)
        if self.has_data:
            PyBuffer_Release(&self.data)

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} belongs to this process: pass the ring, and take one there")

    @property
    def closed(self):
        """Whether it was closed, or belongs to a process that was forked."""
        return self.state == CLOSED or self.state == FORKED

    @property
    def ring(self):
        """The ring that it belongs to."""
        return self.memory

    cdef int finish(self, Window window, bint keep, Py_ssize_t n, object after) except -1:
        raise NotImplementedError


cdef int lend(Window window, End end, unsigned char *at, uint64_t begin, Py_ssize_t items) except -1:
    """Make *window* one of *items* items at *at*."""
    cdef RingMemory memory = end.memory
    cdef Py_ssize_t step = memory.element_size
    window.end, window.at, window.begin, window.items = end, at, begin, items
    window.nbytes_ = items * <Py_ssize_t>memory.ring.item_size
    window.shape[0] = items
    for i in range(<int>memory.header.dims, 0, -1):
        window.shape[i], window.strides[i] = memory.dims[i - 1], step
        step *= memory.dims[i - 1]
    window.strides[0] = step
    window.truth = True
    end.serial += 1
    window.serial = end.serial
    end.state = LENT
    return 0


@cython.auto_pickle(False)
@cython.no_gc_clear  # __dealloc__ gives the window back
@cython.freelist(16)
cdef class Window:
    """Memory of the ring on loan, a buffer of its items; made by claim() and peek().

    memoryview(window), numpy.asarray(window) and torch.from_dlpack(window) see the ring's own
    bytes. They stay safe to touch afterwards, but what they show may then be overwritten.
    """

    def __init__(self):
        raise TypeError("windows are made by claim() and peek()")

    def __dealloc__(self):
        if self.is_open():
            self.end.state = USABLE

    cdef bint is_open(self) noexcept:
        return self.end is not None and self.end.state == LENT and self.serial == self.end.serial

    cdef int check(self, object n, Py_ssize_t *count) except -1:
        """Refuse what is closed; *n* items of it, None for all."""
        if not self.is_open():
            if self.end.state == FORKED:
                self.end.refuse()
            raise ValueError("this window is closed: it was committed, aborted or released")
        count[0] = self.items if n is None else as_count(n, "n")
        if count[0] > self.items:
            raise ValueError(f"n must be at most the window's {self.items}, not {count[0]}")
        return 0

    def __getbuffer__(self, Py_buffer *view, int wish):
        cdef RingMemory memory
        if self.end is None or not self.end.has_data:
            raise ValueError("this window's ring is closed")
        if wish & PyBUF_WRITABLE and not self.writable:
            raise BufferError("a reader's window is read-only")
        memory = self.end.memory
        view.obj = self
        view.buf = self.at
        view.len = self.nbytes_
        view.itemsize = memory.element_size
        view.readonly = not self.writable
        view.ndim = 1 + <int>memory.header.dims
        view.format = PyBytes_AS_STRING(memory.element) if wish & PyBUF_FORMAT else NULL
        view.shape = self.shape if wish & PyBUF_ND else NULL
        view.strides = self.strides if wish & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = NULL
        self.end.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        cdef End end = self.end
        end.exports -= 1
        if not end.exports and end.has_data and (end.state == CLOSED):
            end.has_data = False
            PyBuffer_Release(&end.data)

    def __len__(self):
        return self.items

    def __bool__(self):
        return self.truth

    def __getitem__(self, key):
        return memoryview(self)[key]

    def __setitem__(self, key, value):
        memoryview(self)[key] = value

    def __dlpack__(self, **words):
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self):
        return (1, 0)

    @property
    def nbytes(self):
        """Its bytes."""
        return self.nbytes_

    @property
    def array(self):
        """A numpy array over it, no copy."""
        import numpy

        return numpy.asarray(memoryview(self))

    @property
    def closed(self):
        """Whether it was committed, aborted or released."""
        return not self.is_open()

    def tobytes(self):
        """A copy of its bytes."""
        return memoryview(self).tobytes()

    def __repr__(self):
        state = "open" if self.is_open() else "closed"
        return f"<{type(self).__name__} of {self.items} items, {state}>"

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} is memory on loan and cannot be pickled: copy it (tobytes())")

    def __enter__(self):
        cdef Py_ssize_t n
        self.check(None, &n)
        return self
