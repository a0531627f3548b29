"""A buffer over somebody's memory that can be called back, as mmap.mmap lends its own."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer


@cython.auto_pickle(False)
@cython.final
cdef class Loan:
    """Lends the bytes of *owner*, and counts the views of them, but not what holds only this object.

    memoryview(loan).obj is the loan, as a memoryview's of an mmap.mmap is the mmap: that is
    all that numpy.ndarray(buffer=view) keeps. So recall() succeeds under such an array, and
    *owner*, which the loan keeps, has to see to it that its addresses stay valid.
    """

    def __cinit__(self, owner):
        self.held = False
        self.exports = 0
        PyObject_GetBuffer(owner, &self.source, PyBUF_WRITABLE)
        self.held = True
        self.owner = owner

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.source)

    def __getbuffer__(self, Py_buffer *view, int wish):
        if not self.held:
            raise ValueError("this memory was given back")
        PyBuffer_FillInfo(view, self, self.source.buf, self.source.len, self.source.readonly, wish)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1

    def recall(self):
        """End the loan. Raises BufferError while views are alive, and changes nothing then."""
        if self.exports:
            raise BufferError(f"cannot close under {self.exports} live views: delete them, or call release() "
                              "on the memoryviews, first")
        if self.held:
            self.held = False
            PyBuffer_Release(&self.source)
