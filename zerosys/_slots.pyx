"""The table of a slot pool, and the slot that is lent of it: taken and given back by one atomic step."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AsDouble
from libc.errno cimport EAGAIN, EBUSY
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from zerosys._args cimport as_count, as_fd
from zerosys._result cimport fail

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef extern from "slots.h" nogil:
    enum:
        MAGIC "ZS_SLOTS_MAGIC"
        VERSION "ZS_SLOTS_VERSION"
        FREE "ZS_SLOT_FREE"
        HELD "ZS_SLOT_HELD"
        SENT "ZS_SLOT_SENT"

    struct zs_slot:
        uint64_t word

    struct zs_slots_header:
        uint64_t magic, nbytes, stride, first
        uint32_t version, count, waiting

    uint64_t slot_word "zs_slot_word"(uint64_t generation, uint32_t state, uint32_t seat)
    uint32_t generation_of "zs_slot_generation"(uint64_t word)
    uint32_t state_of "zs_slot_state"(uint64_t word)
    uint64_t next_generation "zs_slot_next"(uint64_t word)
    uint64_t load "zs_slot_load"(const zs_slots_header *table, uint32_t i)
    bint turn "zs_slot_turn"(zs_slots_header *table, uint32_t i, uint64_t before, uint64_t after)
    uint64_t take "zs_slots_take"(zs_slots_header *table, uint32_t count, uint32_t seat, uint32_t *i)
    bint give "zs_slots_give"(zs_slots_header *table, uint32_t i, uint64_t word)
    uint64_t doze "zs_slots_doze"(
        zs_slots_header *table, uint32_t count, uint32_t seat, uint32_t *i, int64_t ns)
    uint32_t sweep "zs_slots_sweep"(
        zs_slots_header *table, uint32_t count, int fd, uint32_t own, uint32_t state)
    int sit "zs_slots_sit"(zs_slots_header *table, uint32_t count, int own_fd)
    int reopen "zs_ring_reopen"(int fd)
    int64_t clock "zs_ring_clock"()

cdef extern from "_ring_fork.h":
    enum:
        FORKED "ZS_END_FORKED"

    struct zs_keep:
        pass

    void keep_end "zs_keep"(zs_keep *keep, int *own_fd, int *state)
    void unkeep_end "zs_unkeep"(zs_keep *keep)
    int watch_forks "zs_watch_forks"()

if watch_forks() < 0:
    raise MemoryError("pthread_atfork")

cdef enum:
    STANDING = 0  # no seat is taken yet
    SEATED = 1

cdef Py_ssize_t ENTRY = 64      # bytes of the header's fixed part twice, and of a slot's word
cdef Py_ssize_t MOST = 1 << 24  # slots
cdef int64_t SLICE = 50_000_000  # ns between two looks at signals and at the dead


class StaleSlot(ValueError):
    """The slot was given back, or went on to another process, and may be in others' hands now."""


def table_bytes(count):
    """The bytes that a table of *count* slots takes, whole pages of 4096."""
    cdef Py_ssize_t n = as_count(count, "count")
    if not 1 <= n <= MOST:
        raise ValueError(f"count must be 1 to {MOST}, not {count}")
    return (2 * ENTRY + n * ENTRY + 4095) // 4096 * 4096


def format_table(memory, count, nbytes, stride):
    """Write the table of a new pool into *memory*, whose slots follow it, *stride* bytes apart."""
    cdef Py_buffer view
    cdef zs_slots_header *table
    cdef Py_ssize_t first = table_bytes(count), n = as_count(count, "count")
    PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
    try:
        if view.len < first or as_count(stride, "stride") > (view.len - first) // n:
            raise ValueError(f"{view.len} bytes are too few for {n} slots of {stride}")
        memset(view.buf, 0, first)
        table = <zs_slots_header *>view.buf
        table.version, table.count = VERSION, n
        table.nbytes, table.stride = as_count(nbytes, "nbytes"), as_count(stride, "stride")
        table.first = first
        table.magic = MAGIC
    finally:
        PyBuffer_Release(&view)


@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class SlotTable:
    """The slots of *memory*, a lease on it, and this process's seat among those who use them.

    *fd* is that of the memory's file, whose byte locks say who lives. Every number in the memory is checked.
    *kind* is the class of the slots.
    """

    cdef Py_buffer view
    cdef bint has_view
    cdef zs_slots_header *table
    cdef int fd, own_fd, state
    cdef zs_keep keep
    cdef uint32_t n, seat, cursor
    cdef uint64_t size, stride, first
    cdef readonly uint32_t forks   # how often the process was forked since, as far as this one noticed
    cdef readonly Py_ssize_t held  # slots that this process has
    cdef type kind
    cdef object __weakref__

    def __cinit__(self):
        self.own_fd = self.fd = -1

    def __init__(self, memory, fd, type kind):
        self.fd = as_fd(fd)
        self.kind = kind
        PyObject_GetBuffer(memory, &self.view, PyBUF_WRITABLE)
        self.has_view = True
        try:
            self.check_header()
            self.join()
        except BaseException:
            self.leave()  # at once: the error's traceback would keep the lease
            raise

    cdef int check_header(self) except -1:
        cdef zs_slots_header *table = <zs_slots_header *>self.view.buf
        if self.view.len < 2 * ENTRY or table.magic != MAGIC:
            raise ValueError("this memory holds no slot pool")
        if table.version != VERSION:
            raise ValueError(f"a slot pool of version {table.version}, this zerosys reads {VERSION}: use "
                             "one version")
        self.n, self.size, self.stride = table.count, table.nbytes, table.stride
        self.first = table.first
        # By division: a product of what a stranger wrote may wrap.
        if (not 1 <= self.n <= MOST or self.first != <uint64_t>table_bytes(self.n)
                or self.first > <uint64_t>self.view.len or not 1 <= self.size <= self.stride
                or self.stride > (<uint64_t>self.view.len - self.first) // self.n):
            raise ValueError(f"a slot pool that says {self.n} slots of {self.size} bytes, {self.stride} "
                             f"apart, in {self.view.len}: a peer wrote what no honest one writes")
        self.table = table
        return 0

    cdef int join(self) except -1:
        """Take a seat; a forked child takes its own."""
        cdef int rc
        if self.table is NULL:
            raise ValueError(f"this {type(self).__name__} is closed")
        if self.state == SEATED:
            return 0
        if self.state == FORKED:
            unkeep_end(&self.keep)
            self.forks += 1
            self.held = 0
            self._forked()
        self.state = STANDING
        rc = reopen(self.fd)
        if rc < 0:
            fail(rc, "open(/proc/self/fd)")
        self.own_fd = rc
        rc = sit(self.table, self.n, self.own_fd)
        if rc < 0:
            close(self.own_fd)
            self.own_fd = -1
            if rc == -EAGAIN:
                raise OSError(EBUSY, "every seat of the slot pool is taken")
            fail(rc, "fcntl(F_OFD_SETLK)")
        self.seat = rc
        # Each begins elsewhere: many who look from one place on would all want the same slot.
        self.cursor = self.seat % self.n
        keep_end(&self.keep, &self.own_fd, &self.state)
        self.state = SEATED
        return 0

    def _forked(self):
        """This is a forked child, which has noticed just now."""

    @property
    def count(self):
        """The number of slots."""
        return self.n

    @property
    def nbytes(self):
        """The bytes of a slot."""
        return self.size

    @property
    def free(self):
        """The slots that nobody has now."""
        self.join()
        cdef uint32_t i, found = 0
        for i in range(self.n):
            found += state_of(load(self.table, i)) == FREE
        return found

    def acquire(self, timeout=None):
        """A free slot, whose bytes are whatever they were; waits up to *timeout* seconds (None: for ever).

        What processes held that have died is free again. Raises TimeoutError. Ctrl-C is answered.
        """
        cdef uint64_t word
        if self.state != SEATED:
            self.join()
        word = take(self.table, self.n, self.seat, &self.cursor)
        if not word:
            word = self.wait(timeout)
        return self.lend(self.cursor, word)

    def try_acquire(self):
        """acquire(), or None where no slot is free now."""
        self.join()
        cdef uint64_t word = take(self.table, self.n, self.seat, &self.cursor)
        if not word and self.reclaim():
            word = take(self.table, self.n, self.seat, &self.cursor)
        return self.lend(self.cursor, word) if word else None

    def reclaim(self):
        """Free what processes held that have died; the slots. acquire() does it where it has to wait."""
        self.join()
        cdef uint32_t freed = sweep(self.table, self.n, self.fd, self.seat, HELD)
        if not freed:
            # What a process had sent before it ended may still arrive: only if there is nothing else.
            freed = sweep(self.table, self.n, self.fd, self.seat, SENT)
        return freed

    cdef uint64_t wait(self, object timeout) except 0:
        """The word of a slot, whose number is the cursor."""
        cdef int64_t until = -1, left = SLICE
        cdef uint32_t at = self.cursor  # its own: another thread may look meanwhile
        cdef uint64_t word = 0
        cdef double seconds
        if timeout is not None:
            seconds = PyFloat_AsDouble(timeout)
            if not seconds >= 0:
                raise ValueError(f"timeout must be None or a number of seconds >= 0, not {timeout!r}")
            until = clock() + <int64_t>(min(seconds, 1e9) * 1e9)
        while True:
            self.reclaim()
            word = take(self.table, self.n, self.seat, &self.cursor)
            if word:
                return word
            if until >= 0:
                left = min(until - clock(), SLICE)
                if left <= 0:
                    raise TimeoutError(f"none of {self.n} slots was given back within {timeout} s: release() "
                                       "them, or create a pool of more")
            self.held += 1  # close() by another thread would unmap what this one looks at
            try:
                with nogil:
                    word = doze(self.table, self.n, self.seat, &at, left)
            finally:
                self.held -= 1
            if word:
                self.cursor = at
                return word
            PyErr_CheckSignals()

    cdef Slot lend(self, uint32_t index, uint64_t word):
        cdef Slot made = self.kind.__new__(self.kind)
        made.table, made.number, made.word, made.forks = self, index, word, self.forks
        # The next search begins behind it: what was given back last may be in use on a device.
        self.cursor = index + 1 if index + 1 < self.n else 0
        self.held += 1
        return made

    def _adopt(self, index, generation):
        """The slot that another process (or this one) sent; only the first who asks gets it."""
        cdef uint32_t i
        cdef uint64_t word, taken
        self.join()
        if not 0 <= index < self.n:
            raise ValueError(f"the pool has slots 0 to {self.n - 1}, not {index}")
        i = index
        word = load(self.table, i)
        taken = slot_word(next_generation(word), HELD, self.seat)
        if (generation_of(word) != generation or state_of(word) != SENT
                or not turn(self.table, i, word, taken)):
            raise StaleSlot(
                f"slot {index} of generation {generation} is stale, for it is of generation "
                f"{generation_of(load(self.table, i))} by now: it arrived before, or its sender ended and it "
                "came back; keep the sender until its slots have arrived")
        return self.lend(i, taken)

    def _give(self, index, word):
        """Give back what _give_later() was told; False where it was no longer there."""
        return self.table is not NULL and give(self.table, index, word)

    def _give_later(self, index, word, after):
        """Have _give(index, word) called once *after* has been passed."""
        raise NotImplementedError

    cdef int leave(self) noexcept:
        if self.state != STANDING:
            unkeep_end(&self.keep)
        if self.own_fd >= 0:
            close(self.own_fd)
        self.own_fd, self.state, self.table = -1, STANDING, NULL
        if self.has_view:
            self.has_view = False
            PyBuffer_Release(&self.view)
        return 0

    def _leave(self):
        """Give up seat and lease. Raises BufferError while this process has slots."""
        if self.state == FORKED:
            self.held = 0  # those are the parent's
        if self.table is not NULL and self.held:
            raise BufferError(
                f"cannot close a pool of which this process has {self.held} slot(s): release() them first")
        self.leave()

    def __dealloc__(self):
        self.leave()


@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class Slot:
    """``nbytes`` of a SlotPool, a writable buffer; given back once, by release() or when it is dropped.

    ``index`` is which one, ``generation`` how often it changed hands.
    """

    cdef SlotTable table
    cdef uint32_t number, forks
    cdef uint64_t word  # 0 once it was given back
    cdef Py_ssize_t exports

    def __init__(self, *args, **kwargs):
        raise TypeError("slots are made by a pool's acquire()")

    cdef int check(self) except -1:
        if not self.word:
            raise ValueError(f"this {type(self).__name__} was given back")
        self.table.join()
        if self.table.forks != self.forks:
            raise StaleSlot(f"slot {self.number} is the parent's, who was forked: acquire() one here")
        if load(self.table.table, self.number) != self.word:
            raise StaleSlot(
                f"slot {self.number} of generation {generation_of(self.word)} is stale: it went to another "
                f"process, and is of generation {generation_of(load(self.table.table, self.number))} by now")
        return 0

    @property
    def pool(self):
        """The pool that it is of."""
        return self.table

    @property
    def index(self):
        """Its number in the pool."""
        return self.number

    @property
    def generation(self):
        """How often the slot had changed hands when this object was made."""
        return generation_of(self.word)

    @property
    def nbytes(self):
        """Its bytes."""
        return self.table.size

    @property
    def released(self):
        """Whether it was given back by release()."""
        return not self.word

    @property
    def address(self):
        """Where the first byte is in this process."""
        self.check()
        return <size_t>self.table.table + self.table.first + self.number * self.table.stride

    def __len__(self):
        return self.table.size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.check()
        cdef char *at = <char *>self.table.table + self.table.first + self.number * self.table.stride
        PyBuffer_FillInfo(buffer, self, at, self.table.size, False, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self.exports -= 1

    def release(self, after=None):
        """Give it back, for others once *after*, a stream or an event of any library, has been passed.

        Without *after* the device must have finished with it: nothing else keeps a slot from being
        overwritten in mid-copy. Twice is fine. Raises BufferError while views of it are alive, StaleSlot
        where it went to another process, and changes nothing then.
        """
        cdef uint64_t word = self.word
        if not word:
            return
        self.check()
        if self.exports:
            raise BufferError(
                f"cannot give a slot back under {self.exports} live view(s): delete them, or call release() "
                "on the memoryviews, first")
        if after is not None:
            self.table._give_later(self.number, word, after)
        elif not give(self.table.table, self.number, word):
            self.check()
        self.word = 0
        self.table.held -= 1

    def _send(self):
        """Mark it as on its way to another process; its index and generation."""
        self.check()
        cdef uint64_t sent = slot_word(generation_of(self.word), SENT, self.table.seat)
        if state_of(self.word) == HELD:
            if not turn(self.table.table, self.number, self.word, sent):
                self.check()
            self.word = sent
        return self.number, generation_of(self.word)

    def __enter__(self):
        self.check()
        return self

    def __exit__(self, *exc):
        """Give it back; under live views that is left to the last. What was sent is the receiver's."""
        if self.word and not self.exports and state_of(self.word) == HELD:
            self.release()

    def __dealloc__(self):
        cdef SlotTable table = self.table
        if (table is None or not self.word or table.table is NULL or table.forks != self.forks
                or table.state != SEATED):
            return
        table.held -= 1
        # One that was sent stays: whoever receives it has it.
        if state_of(self.word) == HELD:
            give(table.table, self.number, self.word)
