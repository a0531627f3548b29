"""The memory of a ring, checked before anything in it is used; and what its errors are."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.float cimport PyFloat_AsDouble
from cpython.ref cimport Py_DECREF
from libc.errno cimport EAGAIN
from libc.string cimport memcpy, memset

from zerosys._args cimport as_count, as_fd

import re
import struct

# What memoryview reads by itself, and struct knows the size of: an item of another size would let it
# read past the end.
cdef str NATIVE = "cbB?hHiIlLqQnNfdes"
# Codes of what would be followed to an address that a peer chose.
cdef frozenset POINTERS = frozenset("OPX&")
cdef tuple ON_FULL = ("block", "raise", "drop", "overwrite")
cdef tuple ON_DEAD = ("raise", "evict")
cdef tuple ALIVE_WORDS = ("dead", "alive", "unknown")


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
    """Make the zeroed buffer *control* the control block of a ring; RingMemory checks every number.

    *element* is the PEP 3118 format of an item's element, and *shape* an item's lengths.
    Raises ValueError for a format that is too long and a shape of too many lengths.
    """
    cdef zs_ring_header header
    cdef Py_buffer view
    cdef bytes text = element.encode()
    memset(&header, 0, sizeof(header))
    if len(text) > FORMAT_ROOM or len(shape) > MOST_DIMS:
        raise ValueError(f"the dtype takes {len(text)} bytes to describe in {len(shape)} dimensions, more "
                         f"than {FORMAT_ROOM} bytes in {MOST_DIMS}: use fewer or shorter field names")
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
                raise BlockingIOError(EAGAIN, "the ring is not ready: its creator has not finished it, or "
                                      "died")
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
        if set(re.sub(":[^:]*:", "", text)) & POINTERS:
            corrupt(f"an item's format {text!r} has pointers")
        single = text.removeprefix("@")
        if len(single) == 1 and single in NATIVE:
            if struct.calcsize(single) != self.element_size:
                corrupt(f"an item of format {text} does not have {self.element_size} bytes")
        return 0

    def drop_control(self):
        """Give the lease of the control block back."""
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)

    def leave_control(self):
        """drop_control(), once the last writer and reader of this process is closed."""
        self.leaving = True
        if not self.ends:
            self.drop_control()

    cdef int left(self) except -1:
        """One end less."""
        self.ends -= 1
        if self.leaving and not self.ends:
            self.drop_control()
        return 0

    cdef int check(self) except -1:
        if not self.held or self.leaving:
            raise ValueError("this ring is closed")
        return 0

    def __getbuffer__(self, Py_buffer *view, int wish):
        cdef Py_buffer lent
        self.check()
        PyObject_GetBuffer(self._lent(), &lent, wish)
        view.obj = <object>lent.obj  # the mapping's lease, which view now holds too
        view.buf, view.len, view.itemsize, view.readonly = lent.buf, lent.len, lent.itemsize, lent.readonly
        view.ndim, view.format, view.shape = lent.ndim, lent.format, lent.shape
        # The mapping's stride is a place in the view that it was asked to fill, which ends with this call.
        view.strides = NULL if lent.strides == NULL else &view.itemsize
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

        return numpy.asarray(Nothing(self.format, self.element_size)).dtype

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
    """A buffer of no elements of *format* and *size* bytes, from which numpy reads what they are."""

    cdef bytes text
    cdef Py_ssize_t size, length

    def __init__(self, format, size):
        self.text, self.size, self.length = format.encode(), as_count(size, "size"), 0

    def __getbuffer__(self, Py_buffer *view, int wish):
        view.obj = self
        view.buf = view.format = PyBytes_AS_STRING(self.text)
        view.len = 0
        view.itemsize = self.size
        view.readonly = True
        view.ndim = 1
        view.shape = &self.length
        view.strides = &view.itemsize
        view.suboffsets = NULL
        view.internal = NULL
