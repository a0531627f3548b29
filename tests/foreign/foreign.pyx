"""A Cython module of somebody else's, which calls zerosys below Python: built and run by the tests."""

from libc.errno cimport EINTR
from zerosys._mmap cimport PROT_READ, PROT_WRITE, Mapping, c_madvise, c_mmap, c_munmap
from zerosys._numa cimport c_getcpu, c_mask_add, c_mask_has, node_mask
from zerosys._splice cimport SPLICE_F_MOVE, c_splice, c_tee, c_vmsplice, iovec, loff_t

cdef extern from "<sys/mman.h>" nogil:
    int MAP_PRIVATE
    int MAP_ANONYMOUS
    int MADV_DONTNEED


def pump(int src, int pipe_in, int pipe_out, int dst, size_t count):
    """Move *count* bytes from *src* through a pipe to *dst*; the number moved or -errno."""
    cdef ssize_t moved = 0, n, part
    cdef loff_t at = 0
    with nogil:
        while <size_t>moved < count:
            n = c_splice(src, &at, pipe_in, NULL, count - moved, SPLICE_F_MOVE)
            if n == -EINTR:
                continue
            if n <= 0:
                moved = n if n < 0 else moved
                break
            while n:
                part = c_splice(pipe_out, NULL, dst, NULL, n, SPLICE_F_MOVE)
                if part < 0:
                    with gil:
                        return part
                n -= part
                moved += part
    return moved


def lend(int pipe, const unsigned char[::1] data):
    """vmsplice *data* to *pipe*."""
    cdef iovec buffer
    buffer.iov_base = <void *>&data[0]
    buffer.iov_len = data.shape[0]
    return c_vmsplice(pipe, &buffer, 1, 0)


def refusal(int src, int dst):
    """What tee answers for two descriptors: a count or -errno."""
    return c_tee(src, dst, 1, 0)


def mapped(size_t length):
    """Map, advise and unmap *length* bytes of anonymous memory: three outcomes, the first as a sign."""
    cdef ssize_t at = c_mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return at > 0, c_madvise(at, length, MADV_DONTNEED), c_munmap(at, length)


def is_mapping(Mapping thing):
    """The type check that a cimported class gives."""
    return True


def nodes():
    """The mask builder and getcpu: (node 3 is in {3}, node 4 is in {3}, getcpu's outcome)."""
    cdef node_mask mask
    cdef unsigned int cpu, node
    # The whole struct starts zeroed, as its header asks.
    cdef unsigned char *bytes = <unsigned char *>&mask
    cdef size_t i
    for i in range(sizeof(mask)):
        bytes[i] = 0
    c_mask_add(&mask, 3)
    return bool(c_mask_has(&mask, 3)), bool(c_mask_has(&mask, 4)), c_getcpu(&cpu, &node)
