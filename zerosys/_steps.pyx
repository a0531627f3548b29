"""A transfer in steps that never sleep for a side: for event loops, which lend it the pipe in between."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport EOPNOTSUPP
from posix.fcntl cimport O_NONBLOCK
from posix.unistd cimport close

from zerosys._args cimport as_count
from zerosys._result cimport fail, or_errno
from zerosys._splice cimport c_wish_pipe_size
from zerosys._transfer cimport (
    DONE, FILE, MEMORY, OTHER, PIPE, SPLICE_PIPE, WANT_SINK, WANT_SOURCE, WANT_TIME, WORKING, Transfer, begin)

cdef extern from "<fcntl.h>" nogil:
    const int O_CLOEXEC

cdef extern from "<unistd.h>" nogil:
    int pipe2(int fds[2], int flags)

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef dict OUTCOMES = {DONE: None, WANT_SOURCE: "source", WANT_SINK: "sink", WANT_TIME: "time",
                      WANT_PIPE: "pipe", WORKING: "working"}
cdef dict KINDS = {MEMORY: "memory", PIPE: "pipe", FILE: "file", OTHER: "other"}


@cython.final
@cython.auto_pickle(False)
cdef class Stage:
    """A private, non-blocking pipe of about *wish* bytes that :class:`Steps` borrow in turn.

    Raises OSError where no descriptors are left. Owns both ends until close(), which is
    idempotent. See pipe(2), F_SETPIPE_SZ in fcntl(2).
    """

    cdef int fds[2]
    cdef readonly Py_ssize_t size

    def __cinit__(self, wish=1 << 20):
        cdef ssize_t rc
        self.fds[0] = self.fds[1] = -1
        self.size = min(as_count(wish, "wish"), 1 << 30)
        if self.size == 0:
            raise ValueError("wish must be at least 1, not 0: a pipe has at least one page")
        rc = or_errno(pipe2(self.fds, O_CLOEXEC | O_NONBLOCK))
        if rc < 0:
            self.fds[0] = self.fds[1] = -1
            fail(rc, "pipe2")
        rc = c_wish_pipe_size(self.fds[0], self.size)
        if rc < 0:
            fail(rc, "fcntl")
        self.size = rc

    def close(self):
        """Close both ends; what the pipe holds is gone."""
        for i in range(2):
            if self.fds[i] >= 0:
                close(self.fds[i])
            self.fds[i] = -1

    @property
    def closed(self):
        """Whether close() was called."""
        return self.fds[0] < 0

    def __dealloc__(self):
        for i in range(2):
            if self.fds[i] >= 0:
                close(self.fds[i])


@cython.final
@cython.auto_pickle(False)
cdef class Steps:
    """A :class:`zerosys._transfer.Transfer` that is stepped by whoever knows when an end is ready.

    Arguments are Transfer's, without *pipe_size*: where bytes have to go through a private
    pipe a :class:`Stage` has to be lent first. *before* are bytes that were read from the
    source already: they go first, count as copied, and are a part of *count*.

    ``transfer`` tells how far it is; closing it is for close(). Raises as Transfer does.
    """

    cdef steps s
    cdef readonly Transfer transfer
    cdef Stage stage

    def __cinit__(self, src, dst, count=None, *, bytes before=b"", **options):
        self.transfer = Transfer(src, dst, count, _borrows=True, **options)
        self.s.t = &self.transfer.t
        self.precede(before)

    def precede(self, bytes before):
        """Have *before* go first: what *before* is to the constructor; no step may have been taken yet."""
        cdef ssize_t rc
        if not before:
            return
        if self.transfer.t.taken or self.transfer.begun:
            raise ValueError(f"{len(before)} bytes can go first only before the first step")
        if self.transfer.t.strict:
            fail(-EOPNOTSUPP, "splice", f"strict: the source has {len(before)} bytes that were read before")
        if <size_t>len(before) > self.transfer.t.left:
            raise ValueError(f"before has {len(before)} bytes, more than the {self.transfer.t.left} to carry")
        rc = c_precede(&self.s, PyBytes_AS_STRING(before), len(before))
        if rc < 0:
            fail(rc, "malloc")

    def step(self):
        """Carry bytes until a side blocks, about 2 MiB at most; never sleep but for a disk.

        Returns None when all is done; "source" or "sink", which has to become ready;
        "time", for the transfer's ``pause``; "pipe" where lend() has to come first; or
        "working": there is more to do at once. Raises as Transfer.run() does.
        """
        return self.turn(False)

    def slice(self):
        """Like step(), for up to 50 ms: for a thread, since files sleep for their disk."""
        return self.turn(True)

    cdef object turn(self, bint in_thread):
        cdef int rc
        self.transfer.claim()
        try:
            if not self.transfer.begun:
                self.transfer.loan = begin(&self.transfer.t)
                self.transfer.begun = True
            self.transfer.check()
            with nogil:
                rc = c_long_turn(&self.s) if in_thread else c_turn(&self.s)
            if rc < 0:
                self.transfer.refuse(rc)
            return OUTCOMES[rc]
        except BaseException as stopped:
            self.transfer.mark(stopped)
            raise
        finally:
            self.transfer.running = False

    def stop(self):
        """Have a slice() that runs in another thread end after its present call."""
        self.s.stop = 1

    def lend(self, Stage stage not None, most=PY_SSIZE_T_MAX):
        """Let the bytes go through *stage*, which is empty and nobody else's meanwhile.

        At most *most* bytes at a time: what take_back() may have to find memory for.
        """
        if self.stage is not None:
            raise ValueError("a stage is lent already")
        if stage.closed:
            raise ValueError("the stage is closed")
        self.transfer.t.pipe_size = min(stage.size, max(1, as_count(most, "most")))
        self.transfer.t.pipe[0], self.transfer.t.pipe[1] = stage.fds[0], stage.fds[1]
        self.stage = stage

    def take_back(self):
        """Return the stage that was lent, empty; None if there is none.

        What it holds is read into memory first and goes on from there, to be counted as
        copied. Raises OSError where that fails: the stage stays lent.
        """
        cdef ssize_t rc
        cdef Stage stage = self.stage
        if stage is None:
            return None
        self.transfer.claim()
        try:
            if self.transfer.t.path == SPLICE_PIPE and self.transfer.t.stranded:
                rc = c_park(&self.s)
                if rc < 0:
                    fail(rc, "read")
        finally:
            self.transfer.running = False
        self.transfer.t.pipe[0] = self.transfer.t.pipe[1] = -1
        self.stage = None
        return stage

    def close(self):
        """Close the transfer; a stage that is still lent is closed too, for it may hold bytes."""
        self.transfer.close()
        self.transfer.t.pipe[0] = self.transfer.t.pipe[1] = -1
        if self.stage is not None:
            self.stage.close()
            self.stage = None

    @property
    def staged(self):
        """Whether a stage is lent."""
        return self.stage is not None

    @property
    def progress(self):
        """A number that grows with every byte that goes into the stage or out of it."""
        return 2 * self.transfer.delivered + self.transfer.t.stranded

    @property
    def kinds(self):
        """What *src* and *dst* are: "memory", "pipe", "socket", "file" or "other"."""
        return KINDS.get(self.transfer.t.src.kind, "socket"), KINDS.get(self.transfer.t.dst.kind, "socket")

    @property
    def watched(self):
        """The descriptors to watch for *src* and *dst*: a terminal has one of our own. -1 is memory."""
        return self.transfer.t.src.fd, self.transfer.t.dst.fd

    @property
    def parked(self):
        """Whether what is staged lies in memory that a pipe had before."""
        return bool(self.s.parked)
