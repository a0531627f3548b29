"""What writer and reader of a ring have in common, and the windows they lend."""

cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release,
    PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.float cimport PyFloat_AsDouble
from libc.errno cimport EAGAIN, EBUSY, EPIPE, EPROTO

from zerosys._args cimport as_count, as_fd
from zerosys._result cimport fail, interrupted, or_errno
from zerosys._ring cimport SPIN, corrupt

cdef extern from "<fcntl.h>" nogil:
    int F_DUPFD_CLOEXEC
    int fcntl(int fd, int command, ...)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef extern from "_ring_fork.h":
    void keep_end "zs_keep"(zs_keep *keep, int *own_fd, int *state)
    void unkeep_end "zs_unkeep"(zs_keep *keep)
    int watch_forks "zs_watch_forks"()

if watch_forks() < 0:
    raise MemoryError("pthread_atfork")


@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class End:
    """What writer and reader have in common: a place in the ring, and its memory on lease."""

    def __cinit__(self):
        self.place.own_fd = self.fd = -1

    cdef int prepare(self, RingMemory memory, object data, bint writable, object control_fd,
                     object spin) except -1:
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
        return 0

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
        self.memory.ends += 1
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
            raise BufferError(f"a window of this {name} is open: leave its with, or commit or release it, "
                              "first")
        if self.state == BUSY:
            raise ValueError(f"this {name} is in the middle of another call: give each thread its own, or a "
                             "lock")
        if self.state == FORKED:
            raise ValueError(f"this {name} belongs to the process that was forked: take another here")
        raise ValueError(f"this {name} is closed")

    cdef int vacate(self) except -1:
        """After the place was given up: give the memory back, at the latest with the last view."""
        self.state = CLOSED
        self.array = None
        unkeep_end(&self.keep)
        if self.fd >= 0:
            close(self.fd)
        self.fd = -1
        self.memory.left()
        if self.has_data and not self.exports:
            self.has_data = False
            PyBuffer_Release(&self.data)
        return 0

    cdef int give_back_view(self) except -1:
        """One view of a window less; the last one after close() gives the memory back."""
        self.exports -= 1
        if not self.exports and self.has_data and self.state == CLOSED:
            self.has_data = False
            PyBuffer_Release(&self.data)
        return 0

    cdef object all_items(self, bint writable):
        """A numpy array of the data as it is mapped, twice.

        False where an item lies across the data's end, and where the ring was left, which then lends no more.
        """
        cdef zs_ring *ring = &self.memory.ring
        if ring.size % ring.item_size:
            return False
        try:
            view = memoryview(self.owner)
        except ValueError:
            return False
        import numpy

        return numpy.ndarray((2 * ring.size // ring.item_size, *self.memory.item_shape), self.memory.dtype,
                             view if writable else view.toreadonly())

    def __dealloc__(self):
        unkeep_end(&self.keep)
        if self.place.own_fd >= 0:
            close(self.place.own_fd)
        if self.fd >= 0:
            close(self.fd)
        if self.memory is not None and self.state != CLOSED:
            self.memory.left()
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
    cdef int i
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

    def __init__(self, *args, **words):
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
        self.end.give_back_view()

    def __len__(self):
        return self.items

    def __bool__(self):
        return self.truth

    def __getitem__(self, key):
        try:
            return memoryview(self)[key]
        except NotImplementedError:  # of complex numbers, records, items that are arrays
            return self.array[key]

    def __setitem__(self, key, value):
        try:
            memoryview(self)[key] = value
        except NotImplementedError:
            self.array[key] = value

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
        cdef End end = self.end
        cdef Py_ssize_t first
        if end.has_data and self.scratch is None:
            if end.array is None:
                end.array = end.all_items(self.writable)
            if end.array is not False:
                first = (self.at - <unsigned char *>end.data.buf) // <Py_ssize_t>end.memory.ring.item_size
                return end.array[first:first + self.items]
        import numpy

        return numpy.asarray(memoryview(self))

    @property
    def raw(self):
        """A memoryview of its bytes, whatever its items are."""
        return memoryview(Raw(self))

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
        raise TypeError(f"a {type(self).__name__} is memory on loan and cannot be pickled: copy it by "
                        "tobytes()")

    def __enter__(self):
        cdef Py_ssize_t n
        self.check(None, &n)
        return self


@cython.auto_pickle(False)
@cython.final
@cython.no_gc_clear
cdef class Raw:
    """The bytes of a window."""

    cdef Window window

    def __init__(self, Window window not None):
        self.window = window

    def __getbuffer__(self, Py_buffer *view, int wish):
        cdef Window window = self.window
        if not window.end.has_data:
            raise ValueError("this window's ring is closed")
        PyBuffer_FillInfo(view, self, window.at, window.nbytes_, not window.writable, wish)
        window.end.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.window.end.give_back_view()
