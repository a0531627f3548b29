"""System V shared memory: keys, segments, and one of them mapped here."""

from zerosys._args cimport as_count, as_int
from zerosys._populate cimport populate
from zerosys._range cimport BASE_PAGE
from zerosys._result cimport interrupted


cdef extern from "_sysv.h" nogil:
    cpdef enum:
        IPC_CREAT
        IPC_EXCL
        SHM_HUGETLB
        SHM_RDONLY

    ssize_t c_ftok "zs_ftok"(const char *path, int project, int *key)
    ssize_t c_shmget "zs_shmget"(int key, size_t size, int flags)
    ssize_t c_shmat "zs_shmat"(int id, int flags)
    ssize_t c_shmdt "zs_shmdt"(size_t address)
    ssize_t c_shm_size "zs_shm_size"(int id)
    ssize_t c_shm_remove "zs_shm_remove"(int id)


def ftok(path, project):
    """The key that the file *path*, as bytes, and the low 8 bits of *project* stand for.

    Raises OSError where there is no such file. See ftok(3).
    """
    cdef bytes name = path
    cdef int key = 0
    interrupted(c_ftok(name, as_int(project, "project"), &key), "ftok")
    return key


def shmget(key, size, flags=0):
    """The number of the segment of *key*; with IPC_CREAT one of *size* bytes is made.

    The low 9 bits of *flags* are its permissions. Raises OSError: ENOENT, EINVAL (*size*
    is more than it has), ENOSPC, EACCES. See shmget(2).
    """
    cdef ssize_t id = c_shmget(as_int(key, "key"), as_count(size, "size"), as_int(flags, "flags"))
    interrupted(id, "shmget")
    return id


def shm_size(id):
    """The size of segment *id* in bytes. See shmctl(2), IPC_STAT."""
    cdef ssize_t size = c_shm_size(as_int(id, "id"))
    interrupted(size, "shmctl(IPC_STAT)")
    return size


def shm_remove(id):
    """Remove segment *id*; who has it attached keeps it. See shmctl(2), IPC_RMID."""
    interrupted(c_shm_remove(as_int(id, "id")), "shmctl(IPC_RMID)")


cdef class Segment:
    """A segment mapped here, until close(), the end of a ``with``, or collection.

    ``address`` is where; ``size`` its bytes. Raises OSError as shmat(2).
    """

    cdef readonly size_t address, size

    def __cinit__(self, id, *, flags=0):
        cdef ssize_t at
        self.address = self.size = 0
        self.size = shm_size(id)
        at = c_shmat(as_int(id, "id"), as_int(flags, "flags"))
        interrupted(at, "shmat")
        self.address = at

    def close(self):
        """Unmap it; again is nothing."""
        cdef size_t at = self.address
        if at:
            self.address = 0
            interrupted(c_shmdt(at), "shmdt")

    def __dealloc__(self):
        if self.address:
            c_shmdt(self.address)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()

    def populate(self, *, write=True, offset=0, length=None):
        """Make the pages of *length* bytes from *offset* exist, by writing or reading.

        Raises OSError(EFAULT) where the memory is not to be had, and no signal comes.
        See madvise(2), MADV_POPULATE_WRITE.
        """
        cdef size_t begin = as_count(offset, "offset")
        cdef size_t n
        if not self.address:
            raise ValueError("populate: this segment is closed")
        if begin > self.size:
            raise ValueError(f"offset must be 0 to {self.size}, not {begin}")
        n = self.size - begin if length is None else as_count(length, "length")
        if n > self.size - begin:
            raise ValueError(f"length must be 0 to {self.size - begin}, not {n}")
        if n:
            populate(self.address + begin, n, BASE_PAGE, bool(write), 1, None)
