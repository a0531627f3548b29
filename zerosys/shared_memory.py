"""A drop-in for multiprocessing.shared_memory: the same classes, without the faults of its tracker."""

from __future__ import annotations

import errno
import os
from multiprocessing import shared_memory as theirs
from types import FunctionType
from typing import Any

from zerosys import names
from zerosys._loan import Loan
from zerosys.errors import NotReady
from zerosys.region import SharedRegion

_LONGEST = 255  # NAME_MAX


class SharedMemory(theirs.SharedMemory):
    """Shared memory with a name, made (``create=True``, *size* bytes) or attached by *name*.

    A subclass of CPython's class, with its names, sizes, pickling by name and exceptions;
    either attaches what the other made, and so does shm_open(3). What differs:

    - Only unlink() removes a name. No process is started to watch names, none removes what
      others use, and nothing is printed; *track* is accepted and ignored. What a killed
      creator left is found and removed by ``zerosys region gc``, if nobody has it attached
      through zerosys.
    - A name appears when its memory is complete: every page exists, so a full /dev/shm is
      OSError here and no SIGBUS later, and a size beyond the free memory is refused even
      if most of it would never be touched. A failure leaves no name behind.
    - A failed attach removes nothing, and a file that is not a segment is a ValueError.
    - unlink() raises FileNotFoundError also where the name means other memory by now.
    - The permissions are 0600 whatever the umask.
    - close() under views raises BufferError as CPython's does, and ``buf`` stays usable. An array
      that holds only ``buf`` (``numpy.ndarray(buffer=shm.buf)``) reads zeros after close() instead of
      crashing. Dropped without close(), the memory stays until its last view has gone.

    The memory of others may still be sparse, and may be truncated by them: touching what
    is not there is SIGBUS. See shm_overview(7).
    """

    # What CPython's methods, and people, look at.
    _name: str | None = None
    _mmap: SharedRegion | None = None
    _loan: Loan | None = None  # what buf is a view of, so that close() can tell views from arrays
    _buf: memoryview | None = None
    _fd: int = -1
    _size: int = 0
    _mode: int = 0o600
    _track: bool = False
    _file_id: tuple[int, int] = (0, 0)

    def __init__(self, name: str | None = None, create: bool = False, size: int = 0, *, track: bool = True):
        if not size >= 0:
            raise ValueError(f"size must be positive, not {size}")
        if create and not size:
            raise ValueError("size must be at least 1 byte to create shared memory")
        if name is None and not create:
            raise ValueError("name may only be None with create=True: attaching needs the name to attach")
        if name is None:
            self._name, region = self._nowhere_else(size)
        else:
            posix = "/" + name
            region = self._make(posix, size) if create else _attach(posix)
            self._name = posix
        self._mmap, self._fd, self._file_id = region, region.fileno(), region.file_id
        self._loan = Loan(region)
        self._size, self._buf = region.size, memoryview(self._loan)

    def _nowhere_else(self, size: int) -> tuple[str, SharedRegion]:
        """Memory under a name that CPython makes up, and nobody else has."""
        while True:
            posix: str = theirs._make_filename()  # type: ignore[attr-defined]
            try:
                return posix, self._make(posix, size)
            except FileExistsError:
                continue

    def _make(self, posix: str, size: int) -> SharedRegion:
        return SharedRegion.create(size, name=_file_name(posix), pages="base", mode=self._mode)

    def __del__(self) -> None:
        """Nothing: the memory goes with the last view of it, and its descriptor with the memory."""

    def close(self) -> None:
        """Give this mapping back; the memory stays for others and under its name. Twice is fine.

        Raises BufferError while somebody holds a view of ``buf``, which stays usable then.
        """
        if self._mmap is None or self._loan is None or self._buf is None:
            return
        self._buf.release()
        try:
            self._loan.recall()
        except BufferError:
            self._buf = memoryview(self._loan)
            raise
        self._mmap.close()
        self._mmap, self._loan, self._buf, self._fd = None, None, None, -1

    def unlink(self) -> None:
        """Remove the name, for everybody; whoever has the memory attached keeps it.

        Works after close() too. Raises FileNotFoundError if the name has gone, or means
        other memory by now, which is left alone.
        """
        if self._name is None:
            return
        path = f"{names.SHM}/{_file_name(self._name)}"
        if not names.means(path, *self._file_id):
            raise FileNotFoundError(errno.ENOENT, "this memory has no such name any more", self._name)
        os.unlink(path)


def _file_name(posix: str) -> str:
    """The file in /dev/shm that shm_open(3) means by *posix*; refuses what it refuses."""
    plain = posix.lstrip("/")
    if "\0" in plain:
        raise ValueError(f"name must have no null character, unlike {posix!r}")
    if plain in ("", ".", "..") or "/" in plain:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), posix)
    if len(os.fsencode(plain)) > _LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), posix)
    return plain


def _attach(posix: str) -> SharedRegion:
    plain = _file_name(posix)
    try:
        return SharedRegion.attach(plain)
    except NotReady as refusal:
        if os.stat(f"{names.SHM}/{plain}").st_size:
            raise  # a stranger's lock
        raise ValueError(
            f"cannot map {posix!r}, an empty file: its creator is not done, or died"
        ) from refusal


# CPython's list makes its memory by the global name SharedMemory, which here means ours.
_their_init: Any = theirs.ShareableList.__init__
_init: Any = FunctionType(
    _their_init.__code__,
    {**vars(theirs), "SharedMemory": SharedMemory},
    _their_init.__name__,
    _their_init.__defaults__,
    _their_init.__closure__,
)


class ShareableList(theirs.ShareableList[Any]):
    """CPython's list of fixed length in shared memory, on the SharedMemory of this module.

    ``shm`` is that memory: close() and unlink() it.
    """

    def __init__(self, sequence: Any = None, *, name: str | None = None) -> None:
        _init(self, sequence, name=name)
