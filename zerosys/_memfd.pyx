"""memfd_create(2) and file seals: nameless memory that a descriptor stands for."""

from cpython.object cimport PyObject_AsFileDescriptor
from libc.errno cimport EINVAL, ENODEV, EPERM

from zerosys._args cimport as_bits, as_count
from zerosys._result cimport fail, interrupted

# "memfd:" and the end of the string take 7 of NAME_MAX + 1.
NAME_LIMIT = 249


def memfd_create(name="", flags=MFD_CLOEXEC | MFD_ALLOW_SEALING, *, huge_page=0):
    """Make nameless shared memory of size 0 and return its new descriptor, the caller's.

    *name* only shows in /proc; past 249 bytes it is cut. *huge_page* in bytes takes
    the pages from that pool (hugetlb); 0 means base pages. The memory is not
    executable unless *flags* has MFD_EXEC: MFD_NOEXEC_SEAL is asked for, and left out
    where the kernel does not know it. Raises OSError: ENOSYS without memfd_create
    (an old kernel, a seccomp filter), ENODEV for a page size that is not offered.
    See memfd_create(2).
    """
    cdef bytes label = name.encode()[:NAME_LIMIT]
    cdef unsigned int bits = as_bits(flags, "flags")
    cdef size_t page = as_count(huge_page, "huge_page")
    cdef const char *c_label
    cdef ssize_t fd
    label = label.decode(errors="ignore").encode()  # not in the middle of a character
    if 0 in label:
        raise ValueError(f"name must have no NUL byte, unlike {name!r}")
    if page:
        if page & (page - 1):
            raise ValueError(f"huge_page must be a power of two of bytes, not {page}")
        bits |= MFD_HUGETLB | <unsigned int>((<object>page).bit_length() - 1) << MFD_HUGE_SHIFT
    if not bits & (MFD_EXEC | MFD_NOEXEC_SEAL):
        bits |= MFD_NOEXEC_SEAL
    c_label = label
    while True:
        with nogil:
            fd = c_memfd_create(c_label, bits)
        if fd == -EINVAL and bits & MFD_NOEXEC_SEAL:
            bits &= ~<unsigned int>MFD_NOEXEC_SEAL  # before Linux 6.3
        elif fd == -ENODEV and page:
            fail(fd, "memfd_create", f"this kernel offers no huge pages of {page >> 10} kB: "
                                     "see the folders of /sys/kernel/mm/hugepages")
        elif not interrupted(fd, "memfd_create"):
            return fd


def add_seals(fd, seals):
    """Forbid for good what the bits of *seals* name: shrink, grow, write, more seals.

    Raises PermissionError on a file that takes no seals (any name in /dev/shm is one)
    or is sealed against more, and OSError EBUSY for F_SEAL_WRITE while a writable
    shared mapping exists. See fcntl(2), F_ADD_SEALS.
    """
    cdef int memfd = PyObject_AsFileDescriptor(fd)
    cdef unsigned int bits = as_bits(seals, "seals")
    cdef ssize_t rc = c_add_seals(memfd, <int>bits)
    if rc == -EPERM and c_get_seals(memfd) & F_SEAL_SEAL:
        fail(rc, "fcntl(F_ADD_SEALS)", f"descriptor {memfd} takes no further seals (F_SEAL_SEAL): "
                                       "it has a name, or was made without MFD_ALLOW_SEALING")
    interrupted(rc, "fcntl(F_ADD_SEALS)")


def get_seals(fd):
    """The seals of *fd*, as bits. Raises OSError EINVAL for a file that cannot have any.

    See fcntl(2), F_GET_SEALS.
    """
    cdef ssize_t seals = c_get_seals(PyObject_AsFileDescriptor(fd))
    interrupted(seals, "fcntl(F_GET_SEALS)")
    return seals
