"""Bytes from a descriptor or memory to a descriptor or memory, by the path that copies least."""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AsDouble
from libc.errno cimport EINTR, EOPNOTSUPP, ETIMEDOUT
from libc.string cimport memset
from posix.fcntl cimport F_GETFL, O_APPEND, fcntl
from posix.stat cimport fstat, struct_stat
from posix.time cimport CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE

from zerosys._args cimport as_count, as_fd
from zerosys._nonblock cimport Loaned, borrow_nonblock, is_on_loan
from zerosys._result cimport fail

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef tuple SIDES = (None, "source", "sink")
cdef tuple PATHS = ("splice", "splice-pipe-splice", "sendfile", "reflink", "copy_file_range", "take", "give",
                    "memory", "read-write")
cdef dict CALLS = {SPLICE: "splice", SPLICE_PIPE: "splice", SENDFILE: "sendfile", CLONE: "ioctl",
                   RANGE: "copy_file_range", COPY: "memmove"}
cdef dict WANTS = {WANT_SOURCE: "source", WANT_SINK: "sink", WANT_TIME: "time", WORKING: "working"}
cdef tuple COPYING = (SPLICE, SPLICE_PIPE, RANGE)
cdef long long WATCH = 100_000_000  # ns between two looks of a watcher


cdef double seconds_of(object seconds, str name) except -1:
    cdef double value = PyFloat_AsDouble(seconds)
    if not value >= 0:
        raise ValueError(f"{name} must be None or a number of seconds >= 0, not {seconds!r}")
    # 30 years: more would overflow, and nobody waits.
    return min(value, 1e9)


cdef long long deadline_of(object timeout, str name="timeout") except? -2:
    """CLOCK_MONOTONIC nanoseconds at which *timeout* seconds are over; -1 for None."""
    if timeout is None:
        return -1
    return c_clock(CLOCK_MONOTONIC) + <long long>(seconds_of(timeout, name) * 1e9)


cdef Loaned begin(transfer *t):
    """Make ready for a run; the caller gives what comes back, if anything, back after it."""
    cdef ssize_t rc = c_transfer_begin(t)
    if rc < 0:
        if t.would_copy:
            return None  # the first step says it
        fail(rc, "fcntl")
    if t.src.kind == SOCKET:
        t.src.sure = not t.src.blocking and not is_on_loan(t.src.fd)
    return borrow_nonblock(t.dst.fd) if t.wants_nonblock else None


cdef bint is_buffer(object thing):
    # A region has a descriptor too, but its mapping is what carries its bytes.
    return PyObject_CheckBuffer(thing)


cdef bint same_pipe(int a, int b):
    cdef struct_stat first, second
    if fstat(a, &first) < 0 or fstat(b, &second) < 0:
        return False
    return first.st_dev == second.st_dev and first.st_ino == second.st_ino


@cython.final
@cython.auto_pickle(False)
cdef class Transfer:
    """One transfer of bytes from *src* to *dst*, which can be run in several goes.

    Each end is a descriptor (an int, or an object with ``fileno()``) or a buffer; an
    object that is both, as a region is, counts as a buffer. *count* bytes are carried,
    or all until the source ends or the memory does. Offsets are for files; None uses
    and advances the file's own position. *pipe_size* is a wish for the private pipe
    between two ends of which neither is a pipe; :attr:`pipe_size` tells what was got.
    *rate* is the most bytes a second; *spin* the seconds to try again before a sleep.

    A blocking socket as the sink of a splice gets O_NONBLOCK while a run lasts; never
    on descriptors 0 to 2, nor with *touch_flags* false: the bytes are then read and
    sent, and counted as copied. Where the kernel will not carry them, they are read and
    written; with *strict* that is an error, before the first copy. *stable* has them
    copied where the reader of the sink would see later writes to the source.

    Raises OSError for a bad descriptor, ValueError or TypeError for a bad argument.
    Descriptors are borrowed; buffers are held, and the private pipe is owned, until
    close(). See splice(2), recv(2), send(2).
    """

    def __cinit__(self, src, dst, count=None, *, offset_src=None, offset_dst=None,
                  pipe_size=1 << 20, touch_flags=True, strict=False, stable=False, rate=None,
                  spin=0.0, _borrows=False):
        cdef ssize_t rc
        memset(&self.t, 0, sizeof(transfer))
        self.t.src.fd = self.t.dst.fd = self.t.pipe[0] = self.t.pipe[1] = -1
        self.t.touch_flags, self.t.strict, self.t.stable = bool(touch_flags), bool(strict), bool(stable)
        self.t.borrows = bool(_borrows)
        self.t.stall = -1
        self.t.left = PY_SSIZE_T_MAX if count is None else as_count(count, "count")
        cdef Py_ssize_t wish = min(as_count(pipe_size, "pipe_size"), 1 << 30)
        if wish == 0:
            raise ValueError("pipe_size must be at least 1, not 0: a pipe has at least one page")
        self.t.pipe_wish = wish
        self.t.spin = <long long>(1e9 * seconds_of(spin, "spin"))
        if rate is not None:
            self.t.rate = PyFloat_AsDouble(rate)
            self.t.credited = c_clock(CLOCK_MONOTONIC)
            if not self.t.rate > 0:
                raise ValueError(f"rate must be None or bytes a second > 0, not {rate!r}")
        self.open_src(src, offset_src, count)
        self.open_dst(dst, offset_dst, count)
        if self.t.src.kind == PIPE and self.t.dst.kind == PIPE and same_pipe(
                self.t.src.fd, self.t.dst.fd):
            raise ValueError(f"src ({self.t.src.fd}) and dst ({self.t.dst.fd}) are the same pipe")
        rc = c_transfer_open(&self.t)
        if rc < 0:
            fail(rc, "pipe2")

    cdef int open_src(self, object src, object offset, object count) except -1:
        self.src = src
        if not is_buffer(src):
            return self.open_end(&self.t.src, src, offset, "src")
        refuse_offset(offset, "src")
        try:
            PyObject_GetBuffer(src, &self.src_view, PyBUF_SIMPLE)
        except BufferError as refusal:
            raise TypeError(f"src must be a contiguous buffer: {refusal}") from None
        self.src_held = True
        self.t.src.kind = MEMORY
        self.t.src.at = <unsigned char *>self.src_view.buf
        return self.fit(self.src_view.len, count, "src")

    cdef int open_dst(self, object dst, object offset, object count) except -1:
        self.dst = dst
        if not is_buffer(dst):
            return self.open_end(&self.t.dst, dst, offset, "dst")
        refuse_offset(offset, "dst")
        try:
            PyObject_GetBuffer(dst, &self.dst_view, PyBUF_WRITABLE)
        except BufferError as refusal:
            raise TypeError(f"dst must be a writable, contiguous buffer: {refusal}") from None
        self.dst_held = True
        self.t.dst.kind = MEMORY
        self.t.dst.at = <unsigned char *>self.dst_view.buf
        return self.fit(self.dst_view.len, count, "dst")

    cdef int open_end(self, end *it, object thing, object offset, str name) except -1:
        cdef loff_t at = -1 if offset is None else as_count(offset, f"offset_{name}")
        cdef ssize_t rc = c_end_open(it, as_fd(thing), at)
        if rc < 0:
            fail(rc, "fstat", f"{name} is not an open descriptor ({as_fd(thing)})")
        if at >= 0 and it is &self.t.dst and fcntl(it.fd, F_GETFL) & O_APPEND:
            raise ValueError("offset_dst has no effect where dst is open with O_APPEND, which writes at the "
                             "end: pass None, or reopen it without")
        return 0

    cdef int fit(self, Py_ssize_t length, object count, str name) except -1:
        if count is not None and self.t.left > <size_t>length:
            raise ValueError(f"count is {self.t.left}, but {name} has {length} bytes: pass a longer "
                             "buffer or a smaller count")
        self.t.left = min(self.t.left, <size_t>length)
        return 0

    def run(self, timeout=None, *, stall_timeout=None, watch=None):
        """Carry bytes until *count* is reached or the source ends; return how many the sink has.

        The number counts all runs of this transfer. *watch* is called with this transfer
        about ten times a second while bytes move. Raises TimeoutError when *timeout*
        seconds are over, or *stall_timeout* without a byte moving, BrokenPipeError and
        other OSErrors when an end fails. These, and whatever a signal handler or *watch*
        raises, carry ``moved`` (bytes the sink has accepted, by any path), ``stranded``
        (bytes taken from the source that it has not; another run delivers them,
        take_stranded() returns them), ``side`` ("source", "sink" or None) and ``reason``
        ("late", "failed", "copy" for what strict refused, None for what is not ours).
        See splice(2), poll(2).
        """
        cdef long long deadline = deadline_of(timeout), look = c_clock(CLOCK_MONOTONIC) + WATCH
        cdef int rc
        self.t.stall = -1 if stall_timeout is None else <long long>(
            1e9 * seconds_of(stall_timeout, "stall_timeout"))
        self.start()
        try:
            while True:
                self.check()
                with nogil:
                    rc = c_transfer_drive(&self.t, deadline)
                if rc == DONE:
                    return self.delivered
                # Also after a whole slice without a pause: a signal interrupts no such call.
                PyErr_CheckSignals()
                if rc == EXPIRED or rc == STALLED:
                    self.reason = "late"
                    raise TimeoutError(ETIMEDOUT, self.expired(timeout if rc == EXPIRED else stall_timeout))
                if rc < 0 and rc != -EINTR:
                    self.refuse(rc)
                if watch is not None and c_clock(CLOCK_MONOTONIC) >= look:
                    look = c_clock(CLOCK_MONOTONIC) + WATCH
                    watch(self)
        except BaseException as stopped:
            self.mark(stopped)
            raise
        finally:
            self.stop()

    def step(self, seconds=0.05):
        """Carry bytes without sleeping, for *seconds* at most; tell what has to be waited for.

        That is "source" (until it is readable), "sink" (until it is writable), "time"
        (for :attr:`pause` seconds, for the rate's sake), "working" (nothing: call
        again) or None, when all is done. A blocking socket as the sink is non-blocking
        from the first step until close(). Raises as run() does. See poll(2).
        """
        cdef long long until = c_clock(CLOCK_MONOTONIC_COARSE)
        until += <long long>(1e9 * seconds_of(seconds, "seconds"))
        cdef int rc
        self.claim()
        try:
            if not self.begun:
                self.loan = begin(&self.t)
                self.begun = True
            self.check()
            with nogil:
                rc = c_transfer_step_until(&self.t, until)
            if rc < 0:
                self.refuse(rc)
            return WANTS.get(rc)
        except BaseException as stopped:
            self.mark(stopped)
            raise
        finally:
            self.running = False

    cdef int start(self) except -1:
        self.claim()
        try:
            self.stop_stepping()
            self.loan = begin(&self.t)
        except BaseException as stopped:
            self.mark(stopped)
            self.running = False
            raise
        return 0

    cdef int stop(self) except -1:
        self.running = False
        return self.stop_stepping()

    cdef int stop_stepping(self) except -1:
        cdef Loaned loan = self.loan
        self.loan = None
        self.begun = False
        return 0 if loan is None else loan.give_back()

    cdef int check(self) except -1:
        if self.t.would_copy:
            self.refuse(-EOPNOTSUPP)
        return 0

    cdef int claim(self) except -1:
        if self.closed_:
            raise ValueError("the transfer is closed")
        if self.running:
            raise ValueError("the transfer is running in another thread")
        self.running = True
        self.reason = None
        return 0

    cdef str expired(self, object timeout):
        cdef str what = {SOURCE: "the source had nothing more", SINK: "the sink took no more"}.get(
            self.t.side, "bytes were still moving")
        return f"{float(timeout):.3g} s are over and {what}; run() again goes on"

    cdef int refuse(self, ssize_t rc) except -1:
        self.reason = "copy" if self.t.would_copy else "failed"
        cdef str call = CALLS.get(self.t.path, "read" if self.t.side == SOURCE else "write")
        cdef str why = f"the {SIDES[self.t.side]} failed after {self.delivered} bytes"
        if self.t.would_copy:
            why = self.copies_because() + ", which strict refuses"
        elif self.t.reused:
            why = (f"the {SIDES[self.t.side]}'s descriptor was closed meanwhile, and its number means "
                   "another file now")
        if self.t.stranded:
            why += f"; take_stranded() has {self.t.stranded} more"
        fail(rc, call, why)

    cdef str copies_because(self):
        cdef int flags = fcntl(self.t.dst.fd, F_GETFL) if self.t.dst.fd >= 0 else -1
        if self.t.dst.kind != PIPE and flags >= 0 and flags & O_APPEND:
            return ("the sink is open with O_APPEND, where only a copying write can append: reopen it "
                    "without and seek to its end, or allow the copy")
        return "the kernel does not carry bytes between these ends without a copy"

    cdef int mark(self, object stopped) except -1:
        try:
            stopped.moved = self.delivered
            stopped.stranded = self.stranded
            stopped.side = self.side
            stopped.reason = self.reason
        except AttributeError:
            pass  # a handler's own exception, with slots
        return 0

    def take_stranded(self):
        """Return the bytes that were taken from the source and that the sink has not.

        They leave the transfer: a later run goes on after them. Empty if there are none.
        """
        cdef ssize_t rc
        self.claim()
        try:
            held = PyBytes_FromStringAndSize(NULL, self.t.stranded)
            if self.t.stranded:
                rc = c_take_stranded(&self.t, PyBytes_AS_STRING(held))
                if rc < 0:
                    fail(rc, "read")
                self.t.stranded = 0
            return held
        finally:
            self.running = False

    def close(self):
        """Give up the private pipe, what is stranded in it, and the buffers. Idempotent.

        Raises ValueError while another thread runs the transfer.
        """
        if self.running:
            raise ValueError("the transfer is running in another thread")
        self.closed_ = True
        self.stop()
        self.drop()

    cdef void drop(self) noexcept:
        c_transfer_close(&self.t)
        if self.src_held:
            self.src_held = False
            PyBuffer_Release(&self.src_view)
        if self.dst_held:
            self.dst_held = False
            PyBuffer_Release(&self.dst_view)

    def __dealloc__(self):
        self.drop()

    def __enter__(self):
        return self

    def __exit__(self, kind, stopped, trace):
        self.close()

    @property
    def delivered(self):
        """Bytes that the sink has: moved + received + copied."""
        return c_delivered(&self.t)

    @property
    def moved(self):
        """Bytes handed on by reference, or carried by the kernel without user memory."""
        return self.t.moved

    @property
    def received(self):
        """Bytes that the kernel copied once, straight into their place in *dst*."""
        return self.t.received

    @property
    def copied(self):
        """Bytes written from user memory: *src*'s own, or a buffer on the way."""
        return self.t.copied

    @property
    def stranded(self):
        """Bytes taken from the source that the sink has not accepted."""
        return self.t.stranded

    @property
    def taken(self):
        """Bytes taken from the source: delivered + stranded, and what take_stranded() gave away."""
        return self.t.taken

    @property
    def done(self):
        """Whether *count* is reached or the source has ended, and nothing is stranded."""
        return not self.t.stranded and (self.t.ended or not self.t.left)

    @property
    def ended(self):
        """Whether the source has said that it has no more."""
        return bool(self.t.ended)

    @property
    def aliases(self):
        """Whether later writes to the source can still be seen by whoever reads the sink.

        So it may be where pages of a file were handed to a pipe or a socket. Pages that a
        pipe held are its writer's matter, whom nobody knows.
        """
        return self.t.moved > 0 and self.t.src.kind == FILE and self.t.dst.kind != FILE

    @property
    def pause(self):
        """Seconds until the rate allows the next bytes."""
        return max(0, c_until_credit(&self.t)) / 1e9 if self.t.rate > 0 else 0.0

    @property
    def side(self):
        """Who stopped the last run: "source", "sink" or None."""
        return SIDES[self.t.side]

    @property
    def path(self):
        """How bytes go: "splice", "splice-pipe-splice", "sendfile", "reflink", "copy_file_range",
        "take", "give", "memory", "read-write".

        "take" is read or recv straight into *dst*, "give" write or send straight from
        *src*. What the kernel refuses goes over to another, at last to "read-write". ",
        kernel copies" is added where the kernel writes the bytes into a file's own pages.
        """
        cdef str path = PATHS[self.t.path]
        return f"{path}, kernel copies" if self.t.dst.kind == FILE and self.t.path in COPYING else path

    @property
    def pipe_size(self):
        """The capacity of the private pipe in bytes; 0 if there is none."""
        return self.t.pipe_size

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_


cdef int refuse_offset(object offset, str name) except -1:
    if offset is not None:
        raise ValueError(f"offset_{name} is for files, and {name} is a buffer: slice it instead")
    return 0
