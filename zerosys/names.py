"""Names of shared memory in /dev/shm and hugetlbfs: whole or absent, alive or orphaned.

A name that zerosys gives is linked to memory that is complete, and whoever has the memory
attached by it holds a shared lock on the file (flock), which a mapping alone keeps and death
frees. The sticky bit marks names that may go once nobody holds that lock, and set-group-id
those that are to be kept (neither means anything else for a file that nobody executes); files
of others have none, and are never judged by a lock that their users do not know.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator

from zerosys._descriptor import Descriptor, own
from zerosys._splice import AT_SYMLINK_FOLLOW, linkat
from zerosys.errors import NotReady, Unsupported
from zerosys.sizes import show_size
from zerosys.sysfs import lines
from zerosys.timeouts import waiting

SHM = "/dev/shm"
_LONGEST = 255  # NAME_MAX
COLLECTABLE = stat.S_ISVTX
# A write(2) by a stranger to its group drops it (Linux 6.2): then it looks foreign, and stays all the same.
KEPT = stat.S_ISGID
_PAUSE = 0.002
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TOGETHER = fcntl.LOCK_SH | fcntl.LOCK_NB
# Who looks whether a name is an orphan has its lock for a moment, however early an attacher's deadline.
_GRACE = 0.1


def checked(name: str) -> str:
    """*name* without the one leading slash that POSIX writes. Raises ValueError for what is no name."""
    if not isinstance(name, str):
        raise TypeError(f"name must be text, not {name!r}")
    plain = name.removeprefix("/")
    length = len(plain) if plain.isascii() else len(os.fsencode(plain))
    if plain in ("", ".", "..") or "/" in plain or "\0" in plain or length > _LONGEST:
        raise ValueError(f"name must be 1 to {_LONGEST} bytes without a slash inside, not {name!r}")
    return plain


def huge_mounts() -> Iterator[tuple[str, int]]:
    """The hugetlbfs mounts that this process sees, with the bytes of their pages."""
    for line in filter(None, lines("/proc/self/mounts")):
        _, folder, kind, *_ = line.split(" ")
        if kind == "hugetlbfs":
            path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), folder)
            try:
                yield path, os.statvfs(path).f_bsize
            except OSError:
                continue  # not ours to enter, or mounted over


def folder_for(huge: int) -> str:
    """Where names of memory in pages of *huge* bytes live; base pages (0) are in /dev/shm.

    Raises Unsupported where no hugetlbfs of that size is mounted and may be written.
    """
    if not huge:
        return SHM
    for folder, page in huge_mounts():
        if page == huge and os.access(folder, os.W_OK | os.X_OK):
            return folder
    size = f"{huge >> 20}M"
    raise Unsupported(
        errno.EOPNOTSUPP,
        f"a name for {show_size(huge)} pages needs a hugetlbfs mount of that size that you may write: "
        "mkdir -p "
        f"/dev/hugepages-{size} && mount -t hugetlbfs -o pagesize={size},mode=1777 none "
        f"/dev/hugepages-{size}",
    )


def folders() -> Iterator[str]:
    """Every folder in which names are looked for; the mounts are read only after /dev/shm."""
    yield SHM
    for folder, _ in huge_mounts():
        yield folder


def find(name: str) -> str:
    """The path that *name* has now: that of the memory to which attach() would attach."""
    for folder in folders():
        path = f"{folder}/{checked(name)}"
        if os.path.lexists(path):
            return path
    raise FileNotFoundError(
        errno.ENOENT, "there is no shared memory of this name; zerosys region ls lists what there is", name
    )


def open_unnamed(folder: str) -> Descriptor:
    """A new file in *folder* that has no name yet."""
    return own(os.open, folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def publish(fd: Descriptor, path: str, *, keep: bool) -> None:
    """Give the complete file *fd* its name; the lock that tells it from an orphan comes first.

    Raises FileExistsError if there is something of that name, whatever it is.
    """
    fcntl.flock(fd, fcntl.LOCK_SH)
    os.fchmod(fd.fileno(), stat.S_IMODE(os.fstat(fd.fileno()).st_mode) | (KEPT if keep else COLLECTABLE))
    try:
        linkat(f"/proc/self/fd/{fd.fileno()}", path, flags=AT_SYMLINK_FOLLOW)
    except FileExistsError as refusal:
        raise FileExistsError(
            errno.EEXIST, f"{refusal.strerror}; attach to it, unlink it, or take another name", path
        ) from None


def join(name: str, *, read_only: bool, timeout: float) -> tuple[Descriptor, str, os.stat_result]:
    """Open the memory called *name* and lock it as in use: descriptor, path, and what it is.

    Waits up to *timeout* seconds for a name that is not there and a file that has no size
    yet. Raises FileNotFoundError or NotReady at the deadline, and leaves what it found alone.
    """
    begun = time.monotonic()
    deadline = begun + waiting(timeout)
    flags = _SAFELY | (os.O_RDONLY if read_only else os.O_RDWR)
    while True:
        limit = deadline
        for folder in folders():
            path = f"{folder}/{name}"
            try:
                fd = own(os.open, path, flags)
            except FileNotFoundError:
                continue
            try:
                about = _hold(fd, path)
            except BaseException as refusal:
                fd.close()
                if isinstance(refusal, _Locked):
                    limit = max(deadline, begun + _GRACE)
                if not isinstance(refusal, NotReady) or time.monotonic() >= limit:
                    raise
                break
            if about.st_nlink:
                return fd, path, about
            fd.close()  # removed between opening and locking
            break
        else:
            if time.monotonic() >= limit:
                raise FileNotFoundError(errno.ENOENT, "there is no shared memory of this name", name)
        time.sleep(min(_PAUSE, max(0.0, limit - time.monotonic())))


class _Locked(NotReady):
    """Somebody has the lock to himself; a collector, or whoever lists orphans, for a moment only."""


def _hold(fd: Descriptor, path: str) -> os.stat_result:
    """What *fd* is, once it has our shared lock. Raises NotReady for what may change."""
    number = fd.fileno()
    try:
        fcntl.flock(number, _TOGETHER)
    except BlockingIOError:
        raise _Locked(f"{path} is locked by somebody who may be removing it") from None
    about = os.fstat(number)
    if not stat.S_ISREG(about.st_mode):
        raise ValueError(f"{path} is no shared memory: it is not a regular file")
    if not about.st_size:
        raise NotReady(f"{path} has no size yet: its creator is not done, or died; nothing was changed")
    return about


def means(path: str, device: int, inode: int) -> bool:
    """Whether *path* is still a name of that file."""
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return False
    return (about.st_dev, about.st_ino) == (device, inode)


def orphaned(path: str) -> bool:
    """Whether *path* may be collected: ours, not to be kept, and nobody alive has it attached."""
    return _if_orphaned(path, remove=False)


def collect(path: str) -> bool:
    """Remove *path* if it is orphaned, and tell whether it was; nobody can attach in between."""
    return _if_orphaned(path, remove=True)


def _collectable(mode: int) -> bool:
    return stat.S_ISREG(mode) and bool(mode & COLLECTABLE)


def _locks(fd: Descriptor, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alone(fd: Descriptor) -> bool:
    """Whether nobody has the memory of *fd* attached, which nobody can attach then until *fd* is closed.

    Others who ask this lock it too, for a moment: that must not look like use. A lock that cannot be
    shared is theirs, and is waited for; one that can be is asked for again, since it may be a question.
    """
    patience = time.monotonic() + _GRACE
    tries = 10
    while tries:
        if _locks(fd, fcntl.LOCK_EX):
            return True
        if _locks(fd, fcntl.LOCK_SH):
            fcntl.flock(fd, fcntl.LOCK_UN)
            tries -= 1
        elif time.monotonic() < patience:
            time.sleep(_PAUSE / 10)
        else:
            break  # a stranger's
    return False


def _if_orphaned(path: str, *, remove: bool) -> bool:
    try:
        if not _collectable(os.lstat(path).st_mode):
            return False  # and not opened: the writer of a fifo would wake
        fd = own(os.open, path, os.O_RDONLY | _SAFELY)
    except OSError:
        return False  # gone, not ours to read, or no file
    try:
        about = os.fstat(fd.fileno())
        if not _collectable(about.st_mode):
            return False
        if not _alone(fd) or not means(path, about.st_dev, about.st_ino):
            return False
        if remove:
            os.unlink(path)
        return True
    finally:
        fd.close()
