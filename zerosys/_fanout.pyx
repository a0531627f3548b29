"""One source to many sinks by tee: the same pages to each, the source drained once."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.errno cimport EAGAIN, EINTR, EOPNOTSUPP, ETIMEDOUT
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC
from posix.unistd cimport read, write as c_write

from zerosys._args cimport as_count, as_fd
from zerosys._nonblock cimport Loaned, borrow_nonblock, is_on_loan
from zerosys._result cimport fail, or_errno
from zerosys._transfer cimport (
    DONE, EXPIRED, FILE, MEMORY, OTHER, PIPE, SOCKET, STALLED, WORKING, c_clock, c_end_begin, c_end_open,
    deadline_of, end, seconds_of)

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from "_branch.h" nogil:
    struct branch "zs_branch":
        end dst
        int pipe[2]
        size_t pipe_size
        size_t held
        size_t ahead
        unsigned char *rest
        size_t rest_at
        size_t rest_end
        int copies
        unsigned char *buffer
        size_t buffer_at
        size_t buffered
        unsigned long long moved
        unsigned long long copied
        unsigned long long dropped
        unsigned long long rested
        int blocked
        int error

    size_t c_branch_stranded "zs_branch_stranded"(const branch *b)

cdef extern from "_fanout.h" nogil:
    struct fanout "zs_fanout":
        end src
        int in_ "in"[2]
        int null
        int reads
        int ended
        int drop
        int strict
        int would_copy
        size_t unit
        size_t left
        unsigned long long position
        branch *branches
        int n
        size_t staged
        int wants_source
        int error
        long long stall
        long long progressed
        long long linger

    ssize_t c_fanout_open "zs_fanout_open"(fanout *f, size_t pipe_wish)
    void c_fanout_close "zs_fanout_close"(fanout *f)
    int c_fanout_drive "zs_fanout_drive"(fanout *f, long long deadline)
    int c_fanout_catch_up "zs_fanout_catch_up"(fanout *f)
    int c_fanout_turns "zs_fanout_turns"(fanout *f, long long until)
    long long c_fanout_lingers "zs_fanout_lingers"(const fanout *f)
    unsigned long long c_fanout_progress "zs_fanout_progress"(const fanout *f)

cdef long long WATCH = 100_000_000  # ns between two looks of a watcher
# A socket is of several kinds, and asked.
cdef dict KINDS = {MEMORY: "memory", PIPE: "pipe", FILE: "file", OTHER: "other"}
cdef long long TURN, SLICE
TURN, SLICE = 2_000_000, 50_000_000  # ns of a step on an event loop, and of one on a thread


@cython.final
@cython.auto_pickle(False)
cdef class FanOut:
    """All bytes of *src* to each of *sinks*, through a pipe of its own for each.

    *src* is a descriptor or a buffer, a sink a descriptor. With *drop* a sink that has no
    room misses whole units of *unit* bytes, and one that takes nothing for *linger* seconds
    after the source's end is given up (ETIMEDOUT); else the slowest sets the pace. A sink that
    fails ends alone. *strict* is an error where bytes have to be copied. Raises OSError
    for a bad descriptor, ValueError or TypeError for a bad argument. Descriptors are
    borrowed; pipes are owned until close(). See tee(2), splice(2).
    """

    cdef fanout f
    cdef Py_buffer view
    cdef bint held, closed_, running
    cdef int touch_flags
    cdef tuple sinks
    cdef object src
    cdef list loans
    cdef str reason_

    def __cinit__(self, src, sinks, count=None, *, offset_src=None, unit=1, drop=False, pipe_size=1 << 20,
                  touch_flags=True, strict=False, linger=None):
        cdef ssize_t rc
        cdef int i
        memset(&self.f, 0, sizeof(fanout))
        self.f.src.fd = self.f.in_[0] = self.f.in_[1] = self.f.null = -1
        self.f.stall = self.f.linger = -1
        if linger is not None:
            self.f.linger = <long long>(1e9 * seconds_of(linger, "linger"))
        self.f.drop, self.f.strict, self.touch_flags = bool(drop), bool(strict), bool(touch_flags)
        self.loans = []
        self.f.unit = as_count(unit, "unit")
        self.f.left = PY_SSIZE_T_MAX if count is None else as_count(count, "count")
        cdef size_t wish = as_count(pipe_size, "pipe_size")
        if not wish or not self.f.unit:
            raise ValueError(f"pipe_size and unit must be at least 1, not {wish} and {self.f.unit}")
        self.src, self.sinks = src, tuple(sinks)
        if not self.sinks:
            raise ValueError("there must be at least one sink, not none")
        self.f.branches = <branch *>PyMem_Calloc(len(self.sinks), sizeof(branch))
        if self.f.branches is NULL:
            raise MemoryError(f"no memory for {len(self.sinks)} sinks")
        for i in range(len(self.sinks)):
            self.f.branches[i].dst.fd = self.f.branches[i].pipe[0] = self.f.branches[i].pipe[1] = -1
        self.f.n = len(self.sinks)
        self.open_src(offset_src)
        for i in range(self.f.n):
            rc = c_end_open(&self.f.branches[i].dst, as_fd(self.sinks[i]), -1)
            if rc < 0:
                fail(rc, "fstat", f"sink {i} is not an open descriptor ({as_fd(self.sinks[i])})")
        rc = c_fanout_open(&self.f, min(wish, <size_t>1 << 30))
        if rc < 0:
            fail(rc, "pipe2", f"a fan-out needs two descriptors for each of its {self.f.n} sinks")

    cdef int open_src(self, object offset) except -1:
        cdef ssize_t rc
        cdef Py_ssize_t at
        if not PyObject_CheckBuffer(self.src):
            at = -1 if offset is None else as_count(offset, "offset_src")
            rc = c_end_open(&self.f.src, as_fd(self.src), at)
            return fail(rc, "fstat", f"src is not an open descriptor ({as_fd(self.src)})") if rc < 0 else 0
        PyObject_GetBuffer(self.src, &self.view, PyBUF_SIMPLE)
        self.held = True
        self.f.src.kind = MEMORY
        self.f.src.at = <unsigned char *>self.view.buf
        self.f.reads = True
        self.f.would_copy = self.f.strict
        if self.f.left > <size_t>self.view.len:
            self.f.left = self.view.len
        return 0

    def run(self, timeout=None, *, stall_timeout=None, watch=None):
        """Carry bytes until the source ends or *count* is reached, and every living sink has its own.

        *watch* is called with this object about ten times a second while bytes move.
        Raises TimeoutError when *timeout* seconds are over, or *stall_timeout* without a
        byte moving; OSError when the source fails, or the last sink. :attr:`reason` tells
        which: "late", "failed", "copy" for what strict refused, None for what is not ours.
        """
        cdef long long deadline = deadline_of(timeout), look = c_clock(CLOCK_MONOTONIC) + WATCH
        cdef int rc
        self.f.stall = -1 if stall_timeout is None else <long long>(
            1e9 * seconds_of(stall_timeout, "stall_timeout"))
        if self.running or self.closed_:
            raise ValueError("the fan-out is closed" if self.closed_ else "it is running in another thread")
        self.running = True
        self.reason_ = None
        try:
            self.begin()
            while True:
                with nogil:
                    rc = -EOPNOTSUPP if self.f.would_copy else c_fanout_drive(&self.f, deadline)
                if rc == DONE:
                    return self.taken
                # Also after a whole slice without a pause: a signal interrupts no such call.
                PyErr_CheckSignals()
                if rc == EXPIRED or rc == STALLED:
                    self.expire(timeout if rc == EXPIRED else stall_timeout)
                if rc < 0 and rc != -EINTR:
                    self.refuse(rc)
                if watch is not None and c_clock(CLOCK_MONOTONIC) >= look:
                    look = c_clock(CLOCK_MONOTONIC) + WATCH
                    watch(self)
        finally:
            self.give_back()
            self.running = False

    def start(self):
        """Get ready for step() and slice(), which stop() ends; run() needs neither."""
        if self.running or self.closed_:
            raise ValueError("the fan-out is closed" if self.closed_ else "it is running already")
        self.running = True
        self.begin()

    def step(self):
        """Carry for about 2 ms without a sleep. "working", "waiting" (see :attr:`waits`), or None when done.

        Raises OSError as run() does.
        """
        return self.turns(TURN)

    def slice(self):
        """The same for 50 ms, on a thread, where an end may sleep for a disk."""
        return self.turns(SLICE)

    cdef object turns(self, long long most):
        if not self.running:
            raise ValueError("start() it first")
        cdef long long until = c_clock(CLOCK_MONOTONIC) + most
        cdef int rc
        self.reason_ = None
        with nogil:
            rc = -EOPNOTSUPP if self.f.would_copy else c_fanout_turns(&self.f, until)
        if rc < 0:
            self.refuse(rc)
        return None if rc == DONE else "working" if rc == WORKING else "waiting"

    def stop(self):
        """End what start() began: the sinks' flags are as they were."""
        if self.running:
            self.running = False
            self.give_back()

    @property
    def waits(self):
        """Whom to wait for before the next step: (whether for the source, the numbers of the sinks)."""
        cdef int i
        return bool(self.f.wants_source), tuple(
            [i for i in range(self.f.n) if self.f.branches[i].blocked and not self.f.branches[i].error])

    @property
    def lingers(self):
        """Seconds until a sink that takes nothing is given up, or None."""
        cdef long long left = c_fanout_lingers(&self.f)
        return None if left < 0 else left / 1e9

    @property
    def progress(self):
        """A number that grows while bytes move at either end."""
        return c_fanout_progress(&self.f)

    @property
    def kinds(self):
        """What the source and each sink are: "memory", "pipe", "socket", "file" or "other"."""
        cdef int i
        return KINDS.get(self.f.src.kind, "socket"), *[
            KINDS.get(self.f.branches[i].dst.kind, "socket") for i in range(self.f.n)]

    @property
    def watched(self):
        """The descriptors to watch for the source and each sink; -1 is memory."""
        cdef int i
        return self.f.src.fd, *[self.f.branches[i].dst.fd for i in range(self.f.n)]

    cdef int expire(self, object timeout) except -1:
        self.reason_ = "late"
        raise TimeoutError(
            ETIMEDOUT, f"{float(timeout):.3g} s are over, and {self.taken} bytes were taken from the source")

    def prepend(self, data):
        """Give *data*, which was read ahead of the source, to every sink first; before the first run.

        Raises ValueError if that is more than the least pipe holds.
        """
        cdef Py_ssize_t size = len(data)
        cdef int i
        if size == 0:
            return
        if size > self.pipe_size or self.f.position:
            raise ValueError(f"{size} bytes were read ahead, and the least pipe holds {self.pipe_size}: ask "
                             "for a larger pipe_size")
        data = bytes(data)
        for i in range(self.f.n):
            if c_write(self.f.branches[i].pipe[1], PyBytes_AS_STRING(data), size) != size:
                fail(-EAGAIN, "write")
            self.f.branches[i].held += size
            self.f.branches[i].rested += size
        self.f.position += size

    cdef int begin(self) except -1:
        cdef branch *b
        cdef int i
        c_end_begin(&self.f.src)
        if self.f.src.kind == SOCKET:
            self.f.src.sure = not self.f.src.blocking and not is_on_loan(self.f.src.fd)
        self.f.progressed = c_clock(CLOCK_MONOTONIC)
        for i in range(self.f.n):
            b = &self.f.branches[i]
            c_end_begin(&b.dst)
            if b.dst.kind != SOCKET or not b.dst.blocking:
                continue
            if self.touch_flags and b.dst.fd > 2:
                self.loans.append(borrow_nonblock(b.dst.fd))
            else:
                b.copies = True
                self.f.would_copy |= self.f.strict
        return 0

    cdef int give_back(self) except -1:
        cdef Loaned loan
        while self.loans:
            loan = self.loans.pop()
            loan.give_back()
        return 0

    cdef int refuse(self, int rc) except -1:
        if self.f.would_copy:
            self.reason_ = "copy"
            fail(-EOPNOTSUPP, "splice", "the kernel does not carry bytes between these ends without a copy, "
                 "which strict refuses")
        self.reason_ = "failed"
        fail(rc, "splice", f"the source failed after {self.taken} bytes" if self.f.error
             else f"the last of {self.f.n} sinks failed after {self.taken} bytes of the source")

    def branch(self, number):
        """What sink *number* has: (moved, copied, bytes dropped, bytes stranded, errno it died of or 0)."""
        cdef int i = as_count(number, "number")
        if i >= self.f.n:
            raise IndexError(f"there are {self.f.n} sinks, and no number {i}")
        cdef branch *b = &self.f.branches[i]
        cdef object through = min(b.rested, b.moved)
        if self.f.reads:
            through = b.moved  # all of it was written into our pipe by us
        return b.moved - through, b.copied + through, b.dropped, c_branch_stranded(b), b.error

    def catch_up(self):
        """Take from the source what some sink has of it already, so that all can go on from one place.

        After a run that was stopped: what the others have not of that is stranded for them.
        Raises OSError or MemoryError with nothing taken.
        """
        if self.running or self.closed_:
            raise ValueError("there is nothing to catch up with while it runs, or after close()")
        cdef int rc = c_fanout_catch_up(&self.f)
        if rc < 0:
            fail(rc, "read")

    def take_stranded(self, number):
        """Return the bytes that were taken from the source for sink *number* and that it has not."""
        cdef int i = as_count(number, "number")
        if i >= self.f.n or self.running or self.closed_:
            raise ValueError(f"there is no sink {i} to take from now")
        cdef branch *b = &self.f.branches[i]
        cdef size_t due = c_branch_stranded(b), from_buffer = min(b.buffered, due)
        cdef size_t rest = b.rest_end - b.rest_at
        cdef size_t from_pipe = due - from_buffer - min(rest, due - from_buffer)
        held = PyBytes_FromStringAndSize(NULL, due)
        cdef char *into = PyBytes_AS_STRING(held)
        if from_buffer:
            memcpy(into, b.buffer + b.buffer_at, from_buffer)
        cdef size_t got = from_buffer
        cdef ssize_t n
        while got < from_buffer + from_pipe:
            n = or_errno(read(b.pipe[0], into + got, from_buffer + from_pipe - got))
            if n <= 0:
                fail(n if n else -EINTR, "read")
            got += n
        if got < due:
            memcpy(into + got, b.rest + b.rest_at, due - got)
        b.held = b.buffered = b.rest_at = b.rest_end = b.ahead = 0
        return held

    def take_staged(self):
        """Return what has left the source and is not counted as taken, since some sink has no room for it.

        After catch_up() none of the sinks has any of it.
        """
        if self.running or self.closed_:
            raise ValueError("there is nothing to take while it runs, or after close()")
        held = PyBytes_FromStringAndSize(NULL, self.f.staged)
        cdef char *into = PyBytes_AS_STRING(held)
        cdef ssize_t n
        cdef size_t got = 0
        while got < self.f.staged:
            n = or_errno(read(self.f.in_[0], into + got, self.f.staged - got))
            if n <= 0:
                fail(n if n else -EINTR, "read")
            got += n
        self.f.staged = 0
        return held

    @property
    def taken(self):
        """Bytes taken from the source."""
        return self.f.position

    @property
    def ended(self):
        """Whether the source has said that it has no more."""
        return bool(self.f.ended)

    @property
    def reason(self):
        """Why the last run ended before it was done."""
        return self.reason_

    @property
    def side(self):
        """Who failed: "source", "sink" or None."""
        return "source" if self.f.error else "sink" if self.reason_ == "failed" else None

    @property
    def pipe_size(self):
        """The least capacity of the sinks' pipes in bytes."""
        cdef int i
        return min([self.f.branches[i].pipe_size for i in range(self.f.n)])

    def close(self):
        """Give up the pipes and what is in them. Idempotent; ValueError while a thread runs it."""
        if self.running:
            raise ValueError("it is running in another thread")
        self.closed_ = True
        self.drop()

    cdef void drop(self) noexcept:
        if self.f.branches is not NULL:
            c_fanout_close(&self.f)
            PyMem_Free(self.f.branches)
            self.f.branches = NULL
            self.f.n = 0
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)

    def __dealloc__(self):
        self.drop()

    def __enter__(self):
        return self

    def __exit__(self, kind, stopped, trace):
        self.close()
