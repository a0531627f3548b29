"""Bytes from a descriptor or memory to a descriptor or memory, by the path that copies least."""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AsDouble
from libc.errno cimport EINTR, ETIMEDOUT
from libc.string cimport memset
from posix.fcntl cimport F_GETFL, O_APPEND, fcntl
from posix.stat cimport fstat, struct_stat
from posix.time cimport CLOCK_MONOTONIC

from zerosys._args cimport as_count, as_fd
from zerosys._result cimport fail

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef tuple SIDES = (None, "source", "sink")
cdef tuple PATHS = ("splice", "splice-pipe-splice", "take", "give", "memory", "read-write")
cdef dict CALLS = {SPLICE: "splice", SPLICE_PIPE: "splice", COPY: "memmove"}


cdef long long deadline_of(object timeout) except? -2:
    """CLOCK_MONOTONIC nanoseconds at which *timeout* seconds are over; -1 for None."""
    cdef double seconds
    if timeout is None:
        return -1
    seconds = PyFloat_AsDouble(timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout must be None or a number of seconds >= 0, not {timeout!r}")
    # 30 years: more would overflow, and nobody waits.
    return c_clock(CLOCK_MONOTONIC) + <long long>(min(seconds, 1e9) * 1e9)


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

    A blocking socket as the sink of a splice gets O_NONBLOCK while a run lasts; never
    on descriptors 0 to 2, nor with *touch_flags* false: the bytes are then read and
    sent, and counted as copied. Where splice is refused they are read and written.

    Raises OSError for a bad descriptor, ValueError or TypeError for a bad argument.
    Descriptors are borrowed; buffers are held, and the private pipe is owned, until
    close(). See splice(2), recv(2), send(2).
    """

    cdef transfer t
    cdef Py_buffer src_view, dst_view
    cdef bint src_held, dst_held, running, closed_
    cdef object src, dst

    def __cinit__(self, src, dst, count=None, *, offset_src=None, offset_dst=None,
                  pipe_size=1 << 20, touch_flags=True):
        cdef ssize_t rc
        memset(&self.t, 0, sizeof(transfer))
        self.t.src.fd = self.t.dst.fd = self.t.pipe[0] = self.t.pipe[1] = -1
        self.t.touch_flags = bool(touch_flags)
        self.t.left = PY_SSIZE_T_MAX if count is None else as_count(count, "count")
        cdef Py_ssize_t wish = min(as_count(pipe_size, "pipe_size"), 1 << 30)
        if wish == 0:
            raise ValueError("pipe_size must be at least 1, not 0: a pipe has at least one page")
        self.open_src(src, offset_src, count)
        self.open_dst(dst, offset_dst, count)
        if self.t.src.kind == PIPE and self.t.dst.kind == PIPE and same_pipe(
                self.t.src.fd, self.t.dst.fd):
            raise ValueError(f"src ({self.t.src.fd}) and dst ({self.t.dst.fd}) are the same pipe")
        rc = c_transfer_open(&self.t, wish)
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
            fail(rc, "fstat", f"{name} is not an open descriptor")
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

    def run(self, timeout=None):
        """Carry bytes until *count* is reached or the source ends; return how many the sink has.

        The number counts all runs of this transfer. Raises TimeoutError when *timeout*
        seconds are over, BrokenPipeError and other OSErrors when an end fails. These, and
        whatever a signal handler raises, carry ``moved`` (bytes the sink has accepted, by
        any path), ``stranded`` (bytes taken from the source that it has not; another run
        delivers them, take_stranded() returns them) and ``side`` ("source", "sink" or
        None). See splice(2), poll(2).
        """
        cdef long long deadline = deadline_of(timeout)
        cdef ssize_t rc
        self.claim()
        try:
            rc = c_transfer_begin(&self.t)
            if rc < 0:
                fail(rc, "fcntl")
            while True:
                with nogil:
                    rc = c_transfer_drive(&self.t, deadline)
                if rc == DONE:
                    return self.delivered
                # Also after a whole slice without a pause: a signal interrupts no such call.
                PyErr_CheckSignals()
                if rc == EXPIRED:
                    raise TimeoutError(ETIMEDOUT, self.expired(timeout))
                if rc < 0 and rc != -EINTR:
                    self.refuse(rc)
        except BaseException as stopped:
            self.mark(stopped)
            raise
        finally:
            c_transfer_end(&self.t)
            self.running = False

    cdef int claim(self) except -1:
        if self.closed_:
            raise ValueError("the transfer is closed")
        if self.running:
            raise ValueError("the transfer is running in another thread")
        self.running = True
        return 0

    cdef str expired(self, object timeout):
        cdef str what = {SOURCE: "the source had nothing more", SINK: "the sink took no more"}.get(
            self.t.side, "bytes were still moving")
        return f"{timeout} s are over and {what}; run() again goes on"

    cdef int refuse(self, ssize_t rc) except -1:
        cdef str call = CALLS.get(self.t.path, "read" if self.t.side == SOURCE else "write")
        cdef str why = f"the {SIDES[self.t.side]} failed after {self.delivered} bytes"
        if self.t.stranded:
            why += f"; take_stranded() has {self.t.stranded} more"
        fail(rc, call, why)

    cdef int mark(self, object stopped) except -1:
        try:
            stopped.moved = self.delivered
            stopped.stranded = self.stranded
            stopped.side = self.side
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
    def done(self):
        """Whether *count* is reached or the source has ended, and nothing is stranded."""
        return not self.t.stranded and (self.t.ended or not self.t.left)

    @property
    def side(self):
        """Who stopped the last run: "source", "sink" or None."""
        return SIDES[self.t.side]

    @property
    def path(self):
        """How bytes go: "splice", "splice-pipe-splice", "take", "give", "memory", "read-write".

        "take" is read or recv straight into *dst*, "give" write or send straight from
        *src*. A refused splice changes it to "read-write".
        """
        return PATHS[self.t.path]

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
