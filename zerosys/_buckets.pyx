"""Pieces of memory by exact size, and the block that lends one: the part of a pool that is passed each time.

Under the GIL nothing of another thread runs between the lines of a method here, for none calls Python
code before it is done with the table.
"""

from collections import deque

from cpython.long cimport PyLong_CheckExact

from zerosys._mmap cimport Mapping

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object n, int *overflow) except? -1


cdef class Piece:
    """Memory that a pool owns: *size* bytes, which a device finds at *pointer*.

    *mapping* is what lends it, if that counts its views: beyond *own_views*, those are users'.
    Otherwise recall() is asked, which raises BufferError while it cannot be taken back.
    """

    cdef readonly Py_ssize_t size
    cdef readonly object pointer
    cdef Mapping mapping
    cdef Py_ssize_t own_views

    def __init__(self, size, pointer, Mapping mapping=None, own_views=0):
        self.size, self.pointer, self.mapping, self.own_views = size, pointer, mapping, own_views

    def recall(self):
        """Raise BufferError while something lent of it is alive. A subclass may say more."""

    def close(self):
        """Give the memory back to the system."""
        raise NotImplementedError

    cdef int come_back(self) except -1:
        if self.mapping is None:
            self.recall()
        elif self.mapping.leases > self.own_views:
            raise BufferError(
                f"cannot give a block back under {self.mapping.leases - self.own_views} live view(s): "
                "delete them, or call release() on the memoryviews, first")
        return 0


cdef class Block:
    """``size`` bytes of memory from a pool, which a device finds at ``pointer``; given back once."""

    cdef Buckets pool
    cdef Piece piece
    cdef readonly object size

    def __init__(self):
        raise TypeError("blocks are made by a pool's acquire()")

    @property
    def pointer(self):
        """Where a device finds the first byte. Raises ValueError once given back."""
        return self.held().pointer

    @property
    def released(self):
        """Whether it was given back."""
        return self.piece is None

    cdef Piece held(self):
        if self.piece is None:
            raise ValueError(f"this {type(self).__name__} was given back")
        return self.piece

    def _held(self):
        return self.held()

    def release(self, after=None):
        """Give it back, to be used again once *after*, a stream or an event of any library, has been passed.

        Without *after* the device must have finished with it. Twice is fine. Raises BufferError
        while views of it are alive, and changes nothing then.
        """
        cdef Piece piece = self.piece
        if piece is None:
            return
        piece.come_back()
        if after is None and not self.pool.closed:
            self.pool.put(piece)
        else:
            self.pool._give_later(piece, after)
        self.pool.in_use -= 1
        self.piece = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        """Give it back; under live views it is given up instead, and goes with the last of them."""
        try:
            self.release()
        except BufferError:
            self.give_up()

    cdef int give_up(self) except -1:
        piece, self.piece = self.piece, None
        self.pool.in_use -= 1
        self.pool._lose(piece)
        return 0

    def __del__(self):
        if self.piece is not None:
            self.give_up()


cdef class Buckets:
    """Pieces that are free, by size: *step* bytes are what sizes are rounded up to, *block* what lends one.

    A subclass makes and ends pieces: ``_take_slowly(size)``, ``_give_later(piece, after)``, ``_lose(piece)``.
    """

    cdef readonly Py_ssize_t step
    cdef readonly dict free  # by size, lists of pieces
    cdef public Py_ssize_t hits, in_use
    cdef public bint closed
    cdef public object waiting  # given back, and a device is at them still: (fence, piece)
    cdef type block

    def __init__(self, step, block):
        self.step, self.block = step, block
        self.free, self.waiting = {}, deque()

    cdef int put(self, Piece piece) except -1:
        bucket = self.free.get(piece.size)
        if bucket is None:
            bucket = self.free.setdefault(piece.size, [])
        (<list>bucket).append(piece)
        return 0

    def _put(self, Piece piece):
        self.put(piece)

    def _take(self, size):
        """A block of *size* bytes."""
        cdef Py_ssize_t asked
        cdef int overflow = 0
        if PyLong_CheckExact(size) and not self.waiting:
            asked = PyLong_AsLongLongAndOverflow(size, &overflow)  # -1 for what does not fit
            if 0 < asked <= <Py_ssize_t>1 << 62:  # the rest is refused below, in words
                bucket = self.free.get((asked + self.step - 1) // self.step * self.step)
                if bucket:
                    self.hits += 1
                    return self._lend((<list>bucket).pop(), size)
        return self._take_slowly(size)

    def _lend(self, Piece piece, size):
        """The block that lends *size* bytes of *piece*."""
        cdef Block made = self.block.__new__(self.block)
        made.pool, made.piece, made.size = self, piece, size
        self.in_use += 1
        return made

    def _clear(self):
        """Every free piece, which are the caller's now."""
        free, self.free = self.free, {}
        return [piece for bucket in free.values() for piece in bucket]
