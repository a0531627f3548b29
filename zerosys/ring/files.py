"""The two files of a ring: control, which all may write, and data, mapped twice in a row."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zerosys import backing, filling, locking, names
from zerosys._descriptor import Descriptor, duplicate
from zerosys._mmap import PROT_READ, PROT_WRITE, Mapping, page_size_of
from zerosys._ring import RingCorrupt
from zerosys.backing import Backing
from zerosys.errors import PlacementError
from zerosys.region import SharedRegion

if TYPE_CHECKING:
    from zerosys.nodes import Spec
    from zerosys.policy import Policy

# A named ring is two names; the data's comes first, so that whoever finds the ring finds its data.
DATA = ".data"


@dataclass(frozen=True)
class DataWish:
    """What the data of a ring was asked to be: the words of SharedRegion.create()."""

    node: Spec | None
    policy: Policy | None
    pages: str
    populate: bool
    lock: bool | Literal["try"]
    strict: bool
    force: bool
    keep: bool
    mode: int


class Data:
    """Owns the descriptor of a ring's data, and its mirrored mappings: one to read, one to write."""

    def __init__(
        self,
        fd: Descriptor,
        size: int,
        file_id: tuple[int, int],
        made: Backing,
        policy: Policy | None,
        path: str | None,
    ) -> None:
        self.fd, self.size, self.file_id = fd, size, file_id
        self.backing, self.policy, self.path = made, policy, path
        self.lock: bool | Literal["try"] = False
        self._read: Mapping | None = None
        self._write: Mapping | None = None

    @classmethod
    def create(cls, size: int, name: str | None, wish: DataWish) -> Data:
        """Make *size* bytes as SharedRegion.create() does, placed, populated and verified."""
        # A lock is one mapping's, and the region's goes: the mirror is what is locked.
        region = SharedRegion.create(size, name=name, **{**wish.__dict__, "lock": False})
        try:
            # The descriptor keeps the memory, and its lock the name, when the region is closed.
            path = names.find(name) if name else None
            data = cls(duplicate(region), size, region.file_id, region.backing, region.policy, path)
            region.close()
            data.lock = wish.lock
            if wish.lock:
                data.mapping(writable=True)
            return data
        except BaseException:
            if name:
                region.unlink()
            raise

    @classmethod
    def found(cls, fd: Descriptor, path: str | None, *, trusted: bool) -> Data:
        """What arrived as *fd*, or was found at *path*; its ``size`` is the file's until the header is known.

        Raises ValueError for memory whose size others could change, unless *trusted*.
        """
        about = os.fstat(fd.fileno())
        if path:
            found = backing.found_by_name(about)
        else:
            found = backing.inspect(fd.fileno(), None, read_only=True, unsealed=trusted)
        page = page_size_of(fd)
        huge = page > backing.BASE_PAGE
        source = ("hugetlbfs" if huge else "tmpfs") if path else found.source
        pages = backing.huge_label(page) if huge else "base"
        made = Backing(source, pages, page, 0, found.sealed)
        return cls(fd, about.st_size, (about.st_dev, about.st_ino), made, None, path)

    def mapping(self, *, writable: bool) -> Mapping:
        """The mirrored mapping, made when it is first asked for, with every page that exists mapped."""
        have = self._write if writable else self._read
        if have is None or have.closed:
            align = (
                backing.thp_size() if self.backing.pages == "thp" and self.size >= backing.thp_size() else 0
            )
            protection = PROT_READ | PROT_WRITE if writable else PROT_READ
            try:
                have = Mapping(self.fd, self.size, protection=protection, mirror=True, align=align)
            except PermissionError as refusal:
                raise PermissionError(
                    refusal.errno,
                    f"{refusal.strerror}; this process may only read the ring's data",
                    self.path,
                ) from refusal
            try:
                if self.policy and self.backing.page_size > backing.BASE_PAGE:
                    self._apply(have)  # hugetlb's holds for one mapping
                filling.map_in(have, write=writable)
                self._try_lock(have)
            except BaseException:
                have.close()
                raise
            if writable:
                self._write = have
            else:
                self._read = have
        return have

    def _apply(self, mapping: Mapping) -> None:
        assert self.policy
        try:
            self.policy.apply(mapping)
        except PlacementError:
            pass  # its pages exist, and lie where the creator's policy put them

    def _try_lock(self, mapping: Mapping) -> None:
        if self.lock:
            try:
                mapping.lock()
            except OSError as refusal:
                if self.lock is True:
                    raise locking.explained(refusal, mapping.mapped_size) from refusal

    @property
    def shown(self) -> Mapping:
        """The mapping that the ring itself lends: the writer's, where there is one."""
        return self._write if self._write and not self._write.closed else self.mapping(writable=False)

    def mappings(self) -> list[Mapping]:
        return [mapping for mapping in (self._read, self._write) if mapping]


def create_control(size: int, mode: int, path: str | None) -> tuple[Descriptor, Mapping]:
    """A zeroed control file of *size* bytes, populated, that can be given the name *path*."""
    with ExitStack() as undo:
        span = -(-size // backing.BASE_PAGE) * backing.BASE_PAGE
        fd, source, _ = backing.open_backing(span, "base", mode, path)
        undo.callback(fd.close)
        mapping = Mapping(fd, span)
        undo.callback(mapping.close)
        filling.fill(mapping, source, force=True)  # which names what ran out; the data's size was compared
        undo.pop_all()
        return fd, mapping


def map_control(fd: Descriptor, *, trusted: bool) -> Mapping:
    """Map the control file *fd*: its size cannot change under us, unless peers are *trusted*."""
    if not trusted:
        backing.inspect(fd.fileno(), None, read_only=False, unsealed=False)
    return Mapping(fd, os.fstat(fd.fileno()).st_size)


def data_path(path: str) -> str:
    """Where the data of the ring at *path* has its name: in /dev/shm, or in a hugetlbfs mount."""
    try:
        return names.find(os.path.basename(path) + DATA)
    except FileNotFoundError:
        return path + DATA  # removed meanwhile


def join(name: str, timeout: float) -> tuple[Descriptor, Descriptor, str]:
    """Open both files of the ring *name*, and its path: control for writing, data too where allowed."""
    control, path, _ = names.join(names.checked(name), read_only=False, timeout=timeout)
    try:
        try:
            data, _, _ = names.join(names.checked(name + DATA), read_only=False, timeout=timeout)
        except PermissionError:
            data, _, _ = names.join(names.checked(name + DATA), read_only=True, timeout=timeout)
        except FileNotFoundError:
            raise RingCorrupt(
                f"{name!r} is shared memory, but no ring: a ring's data would be in {name + DATA!r}"
            ) from None
    except BaseException:
        control.close()
        raise
    return control, data, path


def publish(control: Descriptor, path: str, *, keep: bool) -> None:
    """Give the complete ring its name, the last step of its creation."""
    names.publish(control, path, keep=keep)


def clear_orphan(name: str) -> None:
    """Remove data whose creator died before the ring had its name."""
    try:
        path = names.find(name + DATA)
    except FileNotFoundError:
        return
    if not os.path.lexists(f"{names.SHM}/{name}"):
        names.collect(path)
