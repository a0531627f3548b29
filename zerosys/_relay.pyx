"""Both directions between two sockets, run together."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, ETIMEDOUT
from posix.time cimport CLOCK_MONOTONIC

from zerosys._transfer cimport (
    DONE, EXPIRED, STALLED, Transfer, c_clock, deadline_of, seconds_of, transfer)

cdef extern from "_relay.h" nogil:
    struct relay "zs_relay":
        transfer *way[2]
        int want[2]
        int error[2]
        int ready[2]
        long long stall

    void c_relay_open "zs_relay_open"(relay *r, transfer *forth, transfer *back)
    int c_relay_drive "zs_relay_drive"(relay *r, long long deadline)

cdef long long WATCH = 100_000_000  # ns between two looks of a watcher


@cython.final
@cython.auto_pickle(False)
cdef class Relay:
    """Two transfers between the same two sockets, *forth* and *back*, run until both are done.

    The end of one source is passed on to its sink (SHUT_WR) once all the bytes before it
    are. A sink that fails ends its way alone. The transfers stay the caller's to close.
    """

    cdef relay r
    cdef readonly Transfer forth
    cdef readonly Transfer back

    def __cinit__(self, Transfer forth not None, Transfer back not None):
        self.forth, self.back = forth, back
        c_relay_open(&self.r, &forth.t, &back.t)

    def run(self, timeout=None, *, stall_timeout=None, watch=None):
        """Carry bytes both ways until both sources have ended.

        *watch* is called with this relay about ten times a second while bytes move.
        Raises TimeoutError when *timeout* seconds are over, or *stall_timeout* without a
        byte moving either way; OSError when an end fails: a sink's once the other way is
        done too, a source's at once. :attr:`failed` is then the transfer that did. See
        shutdown(2).
        """
        cdef long long deadline = deadline_of(timeout)
        cdef Transfer failed
        self.r.stall = -1 if stall_timeout is None else <long long>(
            1e9 * seconds_of(stall_timeout, "stall_timeout"))
        try:
            self.forth.start()
            self.back.start()
            self.be_sure()
            self.drive(deadline, timeout, stall_timeout, watch)
            if self.r.error[0] or self.r.error[1]:
                self.failing().refuse(self.r.error[0] or self.r.error[1])
        except BaseException as stopped:
            failed = self.failing()
            if failed is None:
                failed = self.forth
            failed.mark(stopped)
            raise
        finally:
            self.back.stop()
            self.forth.stop()

    cdef int drive(self, long long deadline, object timeout, object stall_timeout, object watch) except -1:
        cdef long long look = c_clock(CLOCK_MONOTONIC) + WATCH
        cdef int rc
        while True:
            self.forth.check()
            self.back.check()
            with nogil:
                rc = c_relay_drive(&self.r, deadline)
            if rc == DONE:
                return 0
            # Also after a whole slice without a pause: a signal interrupts no such call.
            PyErr_CheckSignals()
            if rc == EXPIRED or rc == STALLED:
                self.expire(timeout if rc == EXPIRED else stall_timeout)
            if rc < 0 and rc != -EINTR:
                self.failing().refuse(rc)
            if watch is not None and c_clock(CLOCK_MONOTONIC) >= look:
                look = c_clock(CLOCK_MONOTONIC) + WATCH
                watch(self)

    cdef int be_sure(self) except -1:
        """Each socket is a sink too: where we set its O_NONBLOCK, it stays as long as we do."""
        if self.back.loan is not None:
            self.forth.t.src.sure = True
        if self.forth.loan is not None:
            self.back.t.src.sure = True
        return 0

    cdef int expire(self, object timeout) except -1:
        self.forth.reason = "late"
        raise TimeoutError(
            ETIMEDOUT, f"{float(timeout):.3g} s are over, {self.forth.delivered} bytes have gone forth and "
            f"{self.back.delivered} back; run() again goes on")

    @property
    def failed(self):
        """The transfer of the way that failed, or None."""
        return self.failing()

    cdef Transfer failing(self):
        if self.r.want[0] < 0 or self.forth.t.would_copy or self.forth.t.reused:
            return self.forth
        if self.r.want[1] < 0 or self.back.t.would_copy or self.back.t.reused:
            return self.back
        return self.forth if self.r.error[0] else self.back if self.r.error[1] else None
