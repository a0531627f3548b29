"""splice(2) and its family: one Python call, one system call.

Descriptors are ints or have ``fileno()``; a call borrows them and takes them as
they are. Short counts and 0 at the end of input are return values.
"""

from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_DECREF, PyObject
from libc.errno cimport EBADF, EINTR, EINVAL, ESPIPE
from libc.string cimport strlen
from posix.fcntl cimport O_ACCMODE, O_APPEND, O_RDONLY, O_WRONLY

from itertools import islice

from zerosys._args cimport as_bits, as_count, as_fd, as_int
from zerosys._result cimport fail, interrupted

cdef extern from "Python.h":
    int PyUnicode_FSConverter(object path, PyObject **encoded) except 0
    bint PyUnicode_IS_ASCII(object text)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *n) except NULL


cdef inline int place(object offset, loff_t *value, loff_t **at, str name) except -1:
    """Point *at* to *value*, filled from *offset*; to nothing for None: the file's own position."""
    at[0] = NULL
    if offset is not None:
        value[0] = as_count(offset, name)
        at[0] = value
    return 0


cdef str not_pipes(int src, int dst):
    """Which of two open descriptors is no pipe, said as a cause; nothing if both are."""
    cdef bint src_is = c_get_pipe_size(src) >= 0, dst_is = c_get_pipe_size(dst) >= 0
    if src_is and dst_is:
        return "src and dst are ends of one pipe" if c_same_file(src, dst) else ""
    if src_is:
        return f"dst (descriptor {dst}) is not a pipe"
    if dst_is:
        return f"src (descriptor {src}) is not a pipe"
    return f"neither src ({src}) nor dst ({dst}) is a pipe"


cdef str wrong_way(int src, int dst, ssize_t dst_status):
    """Which end is open for the other direction only, if one is."""
    if c_status_flags(src) & O_ACCMODE == O_WRONLY:
        return f"src (descriptor {src}) is open for writing only"
    if dst_status & O_ACCMODE == O_RDONLY:
        return f"dst (descriptor {dst}) is open for reading only"
    return ""


cdef str no_position(int src, int dst):
    """Which ends are pipes, which have no position."""
    cdef list pipes = [f"{name} (descriptor {fd})" for name, fd in (("src", src), ("dst", dst))
                       if c_get_pipe_size(fd) >= 0]
    return f"{' and '.join(pipes)}: a pipe has no position, and takes no offset" if pipes else ""


cdef int refuse(ssize_t rc, str call, int src, int dst) except -1:
    """Raise *rc*, with the cause where EINVAL or EBADF hides one that can be looked up.

    Either can have causes besides, so that only what would be refused in any case is named.
    """
    cdef ssize_t status = c_status_flags(dst)
    cdef bint both_open = status >= 0 and c_status_flags(src) >= 0
    cdef str why = ""
    if rc == -EBADF and both_open:
        why = wrong_way(src, dst, status)
    elif rc == -ESPIPE and both_open:
        why = no_position(src, dst)
    if both_open and not why and (rc == -EINVAL or rc == -EBADF and call == "copy_file_range"):
        if call != "tee" and status & O_APPEND and c_get_pipe_size(dst) < 0:
            why = (f"dst (descriptor {dst}) is open with O_APPEND, which {call} refuses: "
                   "reopen it without, or write() to it")
        elif call == "tee":
            why = not_pipes(src, dst)
        elif call == "splice":
            why = not_pipes(src, dst)
            if why.startswith("neither"):
                why += ": put one between"
            elif " is not a pipe" in why:
                why = ""  # one is enough
    fail(rc, call, why)


def splice(src, dst, count, offset_src=None, offset_dst=None, flags=0):
    """Move up to *count* bytes from *src* to *dst*, one of which is a pipe.

    *offset_src* and *offset_dst* are byte offsets for an end that is a file; None
    uses and advances its own position. Returns the bytes moved, often fewer than
    *count*; 0 is end of input. SpliceFlag.NONBLOCK covers only the pipe end: a full
    blocking socket still blocks, even after poll() said that it is writable.
    Raises BlockingIOError if NONBLOCK is set and the pipe cannot take or give, and
    OSError for every other refusal. Both descriptors stay the caller's.
    See splice(2).
    """
    cdef size_t n = as_count(count, "count")
    cdef int src_fd = as_fd(src)
    cdef int dst_fd = as_fd(dst)
    cdef unsigned int bits = as_bits(flags, "flags")
    cdef loff_t src_at, dst_at
    cdef loff_t *at_src
    cdef loff_t *at_dst
    place(offset_src, &src_at, &at_src, "offset_src")
    place(offset_dst, &dst_at, &at_dst, "offset_dst")
    cdef ssize_t moved
    while True:
        with nogil:
            moved = c_splice(src_fd, at_src, dst_fd, at_dst, n, bits)
        if moved == -EINVAL or moved == -EBADF or moved == -ESPIPE:
            refuse(moved, "splice", src_fd, dst_fd)
        if not interrupted(moved, "splice"):
            return moved


def tee(src, dst, count, flags=0):
    """Copy up to *count* bytes from pipe *src* to pipe *dst* and leave *src* full.

    The pages are shared, not copied. Returns the bytes handed on, often fewer than
    *count*; 0 is end of input. Raises BlockingIOError if SpliceFlag.NONBLOCK is set
    and nothing can move. Both descriptors stay the caller's. See tee(2).
    """
    cdef size_t n = as_count(count, "count")
    cdef int src_fd = as_fd(src)
    cdef int dst_fd = as_fd(dst)
    cdef unsigned int bits = as_bits(flags, "flags")
    cdef ssize_t copied
    while True:
        with nogil:
            copied = c_tee(src_fd, dst_fd, n, bits)
        if copied == -EINVAL or copied == -EBADF or copied == -ESPIPE:
            refuse(copied, "tee", src_fd, dst_fd)
        if not interrupted(copied, "tee"):
            return copied


cdef int admit(Py_buffer *view, int pipe, unsigned int bits) except -1:
    """Refuse a buffer that vmsplice would write although it is read-only, or give unowned."""
    cdef ssize_t status = c_status_flags(pipe)
    # From a pipe's reading end vmsplice copies *into* the buffer.
    cdef bint reading = status >= 0 and status & O_ACCMODE == O_RDONLY and c_get_pipe_size(pipe) >= 0
    if bits & SPLICE_F_GIFT:
        if reading:
            raise ValueError("SpliceFlag.GIFT gives pages to a pipe, and descriptor "
                             f"{pipe} is a reading end: pass the writing end, or no GIFT to fill the buffer")
        lease_of(view).check_gift(<size_t>view.buf, view.len)
    if view.readonly and reading:
        raise TypeError(f"descriptor {pipe} is a pipe's reading end, so the buffer is "
                        "written: pass a writable one, not a read-only one")
    return 0


cdef object lease_of(Py_buffer *view):
    """The lease by which a zerosys Mapping lent the memory in *view*."""
    cdef object exporter = <object>view.obj
    while isinstance(exporter, memoryview):
        exporter = exporter.obj
    if not hasattr(exporter, "check_gift"):
        raise ValueError(
            "SpliceFlag.GIFT needs whole pages of a private anonymous zerosys Mapping, not "
            f"{type(exporter).__name__}: its pages belong to an allocator that reuses them")
    return exporter


cdef ssize_t lend(int pipe, Py_buffer *views, iovec *vec, Py_ssize_t n,
                  unsigned int bits) except -1:
    """vmsplice the *n* buffers that *views* hold; *vec* is room for as many."""
    cdef Py_ssize_t i
    cdef size_t left, part
    cdef ssize_t moved
    for i in range(n):
        if bits & SPLICE_F_GIFT or views[i].readonly:
            admit(&views[i], pipe, bits)
        vec[i].iov_base = views[i].buf
        vec[i].iov_len = views[i].len
    while True:
        with nogil:
            moved = c_vmsplice(pipe, vec, n, bits)
        if not interrupted(moved, "vmsplice"):
            break
    if bits & SPLICE_F_GIFT:
        left = moved
        for i in range(n):
            part = min(left, vec[i].iov_len)
            if part:
                lease_of(&views[i]).gifted(<size_t>views[i].buf, part)
            left -= part
    return moved


cdef ssize_t lend_many(int pipe, object buffers, unsigned int bits) except -1:
    """vmsplice a sequence of buffers, the first IOV_MAX at most."""
    cdef list items = list(islice(buffers, IOV_MAX))
    cdef Py_ssize_t n = len(items), held = 0
    cdef Py_buffer *views = <Py_buffer *>PyMem_Malloc(max(n, 1) * (sizeof(Py_buffer) + sizeof(iovec)))
    if views is NULL:
        raise MemoryError(f"no memory to describe {n} buffers")
    try:
        for item in items:
            PyObject_GetBuffer(item, &views[held], PyBUF_SIMPLE)
            held += 1
        return lend(pipe, views, <iovec *>&views[n], n, bits)
    finally:
        while held:
            held -= 1
            PyBuffer_Release(&views[held])
        PyMem_Free(views)


def vmsplice(fd, buffers, flags=0):
    """Lend *buffers* to a pipe: the reader reads these very pages.

    *buffers* is one buffer or a sequence of them, of which the first IOV_MAX are
    taken. Returns the bytes lent, often fewer than asked. **Raw**: later writes to
    the buffers, and to the memory that they leave behind when they are freed, reach
    the reader until the *last* consumer (another pipe, a socket, a tee) has read
    them, and nothing tells when; an empty pipe proves nothing. From a pipe's reading
    end bytes are copied into the buffers, which must be writable.
    SpliceFlag.GIFT takes only whole pages of a private anonymous Mapping, and puts
    fresh zero pages in the place of those it gave. Raises BlockingIOError if
    SpliceFlag.NONBLOCK is set and the pipe is full. See vmsplice(2).
    """
    cdef int pipe = as_fd(fd)
    cdef unsigned int bits = as_bits(flags, "flags")
    cdef Py_buffer view
    cdef iovec vec
    if not PyObject_CheckBuffer(buffers):
        return lend_many(pipe, buffers, bits)
    PyObject_GetBuffer(buffers, &view, PyBUF_SIMPLE)
    try:
        return lend(pipe, &view, &vec, 1, bits)
    finally:
        PyBuffer_Release(&view)


def sendfile(dst, src, offset_src, count):
    """Send up to *count* bytes of the file *src* to *dst*, in os.sendfile's order.

    *offset_src* is a byte offset; None uses and advances the file's own position.
    Returns the bytes sent, at most 0x7ffff000 and often fewer than *count*; 0 is end
    of file. Raises BlockingIOError if *dst* is non-blocking and full. Both
    descriptors stay the caller's. See sendfile(2).
    """
    cdef size_t n = as_count(count, "count")
    cdef int dst_fd = as_fd(dst)
    cdef int src_fd = as_fd(src)
    cdef loff_t at
    cdef loff_t *at_src
    place(offset_src, &at, &at_src, "offset_src")
    cdef ssize_t sent
    while True:
        with nogil:
            sent = c_sendfile(dst_fd, src_fd, at_src, n)
        if sent == -EINVAL or sent == -EBADF or sent == -ESPIPE:
            refuse(sent, "sendfile", src_fd, dst_fd)
        if not interrupted(sent, "sendfile"):
            return sent


def copy_file_range(src, dst, count, offset_src=None, offset_dst=None, flags=0):
    """Copy up to *count* bytes between files inside the kernel, by reflink where it can.

    Offsets are in bytes; None uses and advances the file's own position. Returns the
    bytes copied, often fewer than *count*. 0 is end of file, but some pseudo-files
    answer 0 although a read would give bytes. Both descriptors stay the caller's.
    See copy_file_range(2).
    """
    cdef size_t n = as_count(count, "count")
    cdef int src_fd = as_fd(src)
    cdef int dst_fd = as_fd(dst)
    cdef unsigned int bits = as_bits(flags, "flags")
    cdef loff_t src_at, dst_at
    cdef loff_t *at_src
    cdef loff_t *at_dst
    place(offset_src, &src_at, &at_src, "offset_src")
    place(offset_dst, &dst_at, &at_dst, "offset_dst")
    cdef ssize_t copied
    while True:
        with nogil:
            copied = c_copy_file_range(src_fd, at_src, dst_fd, at_dst, n, bits)
        if copied == -EINVAL or copied == -EBADF or copied == -ESPIPE:
            refuse(copied, "copy_file_range", src_fd, dst_fd)
        if not interrupted(copied, "copy_file_range"):
            return copied


cdef object path(object name):
    """*name* (str, bytes or a path object) as c_path() takes it: bytes, or ASCII as it is."""
    cdef PyObject *converted
    if isinstance(name, str) and PyUnicode_IS_ASCII(name):
        return name
    try:
        PyUnicode_FSConverter(name, &converted)
    except UnicodeError:
        raise
    except ValueError:
        raise ValueError(f"a path has no NUL byte, unlike {name!r}") from None
    encoded = <object>converted
    Py_DECREF(encoded)  # the converter's own reference
    return encoded


cdef const char *c_path(object encoded) except NULL:
    """The characters of a path(), which the caller keeps meanwhile."""
    cdef Py_ssize_t n
    cdef const char *text
    if isinstance(encoded, bytes):
        return <bytes>encoded
    text = PyUnicode_AsUTF8AndSize(encoded, &n)
    if strlen(text) != <size_t>n:
        raise ValueError(f"a path has no NUL byte, unlike {encoded!r}")
    return text


cdef int as_folder(object fd) except? -1:
    """*fd*, a descriptor or AT_FDCWD: the working directory."""
    return AT_FDCWD if isinstance(fd, int) and fd == AT_FDCWD else as_fd(fd)


def linkat(src, dst, *, src_dir_fd=AT_FDCWD, dst_dir_fd=AT_FDCWD, flags=0):
    """Give the file *src* the further name *dst*, which must not exist.

    With AT_EMPTY_PATH and *src* ``""`` the file is *src_dir_fd* itself (needs
    CAP_DAC_READ_SEARCH); with AT_SYMLINK_FOLLOW ``/proc/self/fd/N`` names an
    O_TMPFILE, for which os.link answers EXDEV. Relative paths start at *src_dir_fd*
    and *dst_dir_fd*, which stay the caller's. Raises FileExistsError if *dst* is there.
    See linkat(2).
    """
    cdef object src_path = path(src), dst_path = path(dst)
    cdef const char *c_src = c_path(src_path)
    cdef const char *c_dst = c_path(dst_path)
    cdef int src_dir = as_folder(src_dir_fd)
    cdef int dst_dir = as_folder(dst_dir_fd)
    cdef int bits = as_int(flags, "flags")
    cdef ssize_t rc
    while True:
        with nogil:
            rc = c_linkat(src_dir, c_src, dst_dir, c_dst, bits)
        if rc < 0 and rc != -EINTR:
            fail(rc, "linkat", f"{src!r} as {dst!r}")
        if not interrupted(rc, "linkat"):
            return


cdef ssize_t capacity(int fd) except -1:
    cdef ssize_t size = c_get_pipe_size(fd)
    if size == -EBADF and c_status_flags(fd) >= 0:
        fail(size, "fcntl(F_GETPIPE_SZ)", f"descriptor {fd} is open, but it is not a pipe")
    interrupted(size, "fcntl(F_GETPIPE_SZ)")
    return size


def pipe_capacity(pipe):
    """Return the bytes that *pipe* holds when each of its slots is a full page.

    A pipe counts slots, not bytes: many small writes fill it early. Raises OSError
    (EBADF) for what is no pipe. See fcntl(2), F_GETPIPE_SZ.
    """
    return capacity(as_fd(pipe))


def set_pipe_capacity(pipe, size):
    """Ask for a capacity of *size* bytes and return the capacity that *pipe* has now.

    A wish: where the user's page budget, pipe-max-size or memory forbids *size* (EPERM,
    ENOMEM), half is tried, and so on down to what the pipe has; a pipe that holds more
    than *size* (EBUSY) stays as it is. The kernel rounds up to a power of two pages, and
    a size of 0 to one page. Raises OSError (EBADF) for what is no pipe.
    See fcntl(2), F_SETPIPE_SZ.
    """
    cdef int fd = as_fd(pipe)
    cdef size_t wish = as_count(size, "size")
    capacity(fd)  # says what is no pipe
    cdef ssize_t got = c_wish_pipe_size(fd, wish)
    interrupted(got, "fcntl(F_SETPIPE_SZ)")
    return got


def pipe_occupancy(pipe):
    """Return the bytes that wait in *pipe* to be read.

    What a socket or file has for its reader is answered too. Raises OSError (ENOTTY)
    for what cannot tell. See ioctl_pipe(2), FIONREAD.
    """
    cdef ssize_t waiting = c_readable_bytes(as_fd(pipe))
    interrupted(waiting, "ioctl(FIONREAD)")
    return waiting
