"""A systems coder's loop: zerosys' calls without a Python object, a check or the GIL."""

from zerosys._splice cimport SPLICE_F_MOVE, c_splice


def discard(int pipe, int null, size_t count):
    """Throw away *count* bytes of *pipe*; return (bytes, system calls), or -errno for bytes."""
    cdef size_t done = 0, calls = 0
    cdef ssize_t moved = 1
    with nogil:
        while done < count and moved > 0:
            moved = c_splice(pipe, NULL, null, NULL, count - done, SPLICE_F_MOVE)
            if moved > 0:
                done += moved
            calls += 1
    return (moved if moved < 0 else done), calls
