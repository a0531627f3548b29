"""SharedRegion: memory that processes share, that lies where it was asked to lie."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import reduction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, Self, SupportsIndex

from zerosys import backing, filling, handle, locking
from zerosys._mmap import (
    MADV_DONTFORK,
    MADV_GUARD_INSTALL,
    MADV_HWPOISON,
    MADV_REMOVE,
    PROT_READ,
    PROT_WRITE,
    Mapping,
)
from zerosys.backing import Backing
from zerosys.errors import PlacementError, PlacementWarning
from zerosys.handle import Particulars, RegionHandle
from zerosys.sizes import parse_size, show_size

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from zerosys.nodes import Spec
    from zerosys.policy import Policy
    from zerosys.proof import Verification
    from zerosys.whereabouts import Placement

_FATAL = {
    int(MADV_DONTFORK): "a forked child that touches the memory would die of SIGSEGV",
    int(MADV_HWPOISON): "touching a poisoned page is SIGBUS",
    int(MADV_GUARD_INSTALL): "touching a guarded page is SIGSEGV",
    int(MADV_REMOVE): "pages that are given up may not be had again at the next touch",
}


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


class SharedRegion(Mapping):
    """Owns a mapping of shared memory and its descriptor; made by create() or attach().

    All its bytes are the user's: there is no header. It is a buffer (memoryview(region)
    is writable bytes, unless attached read-only), a context manager, and travels as an
    argument of a multiprocessing Process, through its Queue, Pipe and Pool, and by
    ``zerosys.handle.send(sock, region.handle())`` to any process.
    """

    _fd: int = -1
    _backing: Backing
    _policy: Policy | None = None
    _locked: bool = False
    _lock_refusal: OSError | None = None

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("make a SharedRegion with SharedRegion.create() or SharedRegion.attach()")

    def __init_subclass__(cls, **words: object) -> None:
        super().__init_subclass__(**words)
        reduction.register(cls, _reduce)

    # -- made and joined ---------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        size: SupportsIndex | str,
        *,
        node: Spec | None = None,
        policy: Policy | None = None,
        pages: str = "auto",
        populate: bool = True,
        lock: bool | Literal["try"] = False,
        strict: bool = True,
        force: bool = False,
        mode: int = 0o600,
    ) -> Self:
        """Make *size* bytes (an int, or "1GiB") of shared memory, or leave nothing behind.

        *node* ("0", 0, "0,2-3") binds it to nodes, *policy* (Bind, Preferred, ...) says it
        in full. *pages*: "base", "2M" or "1G" (hugetlb), "thp", or "auto": hugetlb where
        the nodes' own pool covers it, else base. Every page is populated by writing, on
        the node, and looked up afterwards; ``populate=False`` leaves that to the first
        touch (base pages only). *lock* keeps the pages from being swapped; "try" goes
        on without, and ``locked`` tells. Without *strict* a placement that is refused or
        missed is a PlacementWarning instead of PlacementError. *force* fills memory even
        where free memory or a cgroup's limit foretells the OOM killer. *mode* are the
        permissions of the file.

        Raises PlacementError (an unknown node, pages elsewhere, a refused call), OSError
        ENOMEM or ENOSPC before any byte is handed out, Unsupported for pages that this
        machine has not, ValueError for arguments that contradict each other.
        """
        asked = parse_size(size)
        if pages not in backing.PAGES:
            raise ValueError(f"pages must be one of {', '.join(backing.PAGES)}, not {pages!r}")
        if lock not in (True, False, "try"):
            raise ValueError(f"lock must be True, False or 'try', not {lock!r}")
        if not populate and (pages not in ("auto", "base") or lock):
            raise ValueError(
                "populate=False is for base pages that are not locked: others must exist to be sure of"
            )
        wanted = _wanted(node, policy, strict)
        nodes = wanted.nodes or None if wanted else None
        if pages == "auto":
            pages = backing.best_pages(asked, nodes) if populate else "base"
            if pages != "base":
                try:
                    return cls._create(asked, wanted, pages, True, lock, strict, force, mode)
                except OSError as short:
                    if isinstance(short, PlacementError) or not filling.ran_out(short):
                        raise
                    pages = "base"  # others took the pool's pages meanwhile
        return cls._create(asked, wanted, pages, populate, lock, strict, force, mode)

    @classmethod
    def _create(
        cls,
        asked: int,
        wanted: Policy | None,
        pages: str,
        populate: bool,
        lock: bool | Literal["try"],
        strict: bool,
        force: bool,
        mode: int,
    ) -> Self:
        step = backing.granule(pages)
        span = -(-asked // step) * step
        if pages in backing.HUGE_PAGES and not force:
            filling.require_pool(span, step, _confined(wanted))
        with ExitStack() as undo:
            fd, source, sealed = backing.open_backing(asked if pages == "base" else span, pages, mode)
            undo.callback(os.close, fd)
            self = cls.__new__(cls, fd, asked, align=step if pages == "thp" else 0)
            undo.pop_all()
            self._fd = fd
            undo.callback(self.close)
            # Before the first touch: a page is placed when it faults. And before fallocate,
            # which knows no policy: it put every page on the wrong node.
            effective = wanted.apply(self, strict=strict) if wanted else None
            self._policy = effective if effective and effective.nodes else None
            if pages == "thp":
                filling.prefer_huge(self)
            if populate:
                near = self._policy.nodes if self._policy else None
                thp = step if pages == "thp" else 0
                filling.fill(self, source, nodes=_confined(self._policy), near=near, thp=thp, force=force)
            huge = filling.huge_bytes(self) if pages == "thp" else span if pages != "base" else 0
            self._backing = Backing(source, pages, self.page_size, huge, sealed)
            if self._policy and populate:
                self._prove(strict)
            if lock:
                self._try_lock(must=lock is True)
            undo.pop_all()
        return self

    @classmethod
    def attach(
        cls, source: RegionHandle | int | _HasFileno, *, read_only: bool = False, unsealed: bool = False
    ) -> Self:
        """Map the memory behind a handle or a descriptor, which stay the caller's.

        Of a bare descriptor the size is that of the file. Pages that exist are mapped at
        once. Memory whose file could shrink under us is refused unless *unsealed*: touching
        what a peer truncated is SIGBUS. *read_only* keeps honest code honest; for a real
        guard pass a handle made with ``read_only=True``.

        Raises ValueError for a file that is too short for its handle, unsealed, or no
        memory at all, PermissionError for one that may not be written, OSError for the
        kernel's refusals; nothing stays open or mapped then.
        """
        told = source.particulars if isinstance(source, RegionHandle) else None
        if isinstance(source, str):
            raise TypeError(
                f"attach() takes a RegionHandle, a descriptor or what has fileno(), not {source!r}"
            )
        fd = os.dup(source if isinstance(source, int) else source.fileno())
        try:
            found = backing.inspect(fd, told, read_only=read_only, unsealed=unsealed)
            align = backing.thp_size() if told and told.pages == "thp" else 0
            size = told.size if told else found.size
            protection = PROT_READ if read_only else PROT_READ | PROT_WRITE
            self = cls.__new__(cls, fd, size, protection=protection, align=align)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        page = self.page_size
        huge = page > backing.BASE_PAGE
        try:
            if told and told.page_size != page:
                raise ValueError(
                    f"the handle says pages of {told.page_size} bytes, and its descriptor has {page}: "
                    "they do not belong together"
                )
            if told and told.policy:
                self._inherit(told.policy)
            if found.populated or huge:
                # hugetlb: a page that the pool lacks is an error here, and SIGBUS later.
                filling.map_in(self, write=not found.populated and not read_only)
        except BaseException:
            self.close()
            raise
        pages = backing.huge_label(page) if huge else told.pages if told else "base"
        self._backing = Backing(found.source, pages, page, self.mapped_size if huge else 0, found.sealed)
        return self

    def _inherit(self, policy: dict[str, Any]) -> None:
        """Take over the creator's policy; a file of base pages keeps it itself, hugetlb per mapping."""
        from zerosys.policy import Policy

        self._policy = Policy.from_dict(policy)
        if self.page_size > backing.BASE_PAGE:
            try:
                self._policy.apply(self)
            except PlacementError as refusal:
                # The pages that exist stay; only one that a peer punched out would be placed anew.
                warnings.warn(PlacementWarning(f"attached without its policy: {refusal}"), stacklevel=3)

    def particulars(self) -> Particulars:
        """What a handle says of the region."""
        policy = self._policy.to_dict() if self._policy else None
        return Particulars(self.size, self.page_size, self._backing.pages, self._backing.source, policy)

    def handle(self, *, read_only: bool = False) -> RegionHandle:
        """What another process needs to attach: a new descriptor, which the handle owns.

        With *read_only* it is one through which nobody can map the memory writable.
        """
        if read_only:
            fd = os.open(f"/proc/self/fd/{self.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
        else:
            fd = os.dup(self.fileno())
        return RegionHandle(fd, self.particulars())

    # -- what it is --------------------------------------------------------------------------

    def fileno(self) -> int:
        """The descriptor of the memory, still the region's. Raises ValueError once closed."""
        if self._fd < 0:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._fd

    @property
    def backing(self) -> Backing:
        """What the memory is made of: source, pages got, whether sealed."""
        return self._backing

    @property
    def policy(self) -> Policy | None:
        """The memory policy in effect, nodes that the kernel dropped left out; None for none."""
        return self._policy

    @property
    def read_only(self) -> bool:
        """Whether this mapping can only be read."""
        return not self.protection & PROT_WRITE

    @property
    def sealed(self) -> bool:
        """Whether nobody can change the size of the file: touching the memory sends no signal."""
        return self._backing.sealed

    @property
    def locked(self) -> bool:
        """Whether create() or lock() locked all of it. Says nothing of a device."""
        return self._locked

    @property
    def lock_refusal(self) -> OSError | None:
        """Why ``lock="try"`` went on without, or None."""
        return self._lock_refusal

    def __repr__(self) -> str:
        if self.closed:
            return f"<{type(self).__name__} of {show_size(self.size)}, closed>"
        where = f", {self._policy!r}" if self._policy else ""
        return f"<{type(self).__name__} of {show_size(self.size)}, {self._backing}{where}>"

    # -- where it lies -----------------------------------------------------------------------

    def placement(self) -> Placement:
        """The pages by node, asked for one by one and never touched. See move_pages(2)."""
        from zerosys.whereabouts import placement

        return placement(self, fd=self.fileno())

    def verify(self) -> Verification:
        """Hold every page against the policy; ``ok`` where each exists and lies as it says.

        A snapshot: NUMA balancing and others may move pages afterwards.
        """
        from zerosys.proof import verify

        return verify(self._policy, self.placement)

    def move_to(self, node: int) -> Placement:
        """Bind the region to *node* and move its pages there, checked page by page.

        Returns the placement afterwards. Raises PlacementError with the count of pages
        that stayed and the remedy: pages that others have mapped too move only with
        CAP_SYS_NICE. What moved stays moved, and the policy is then the one of before.
        See move_pages(2).
        """
        from zerosys.policy import Bind, Default
        from zerosys.whereabouts import move_to

        # The policy first: a page that appears meanwhile is then on the right node too.
        target = Bind(node).apply(self)
        try:
            where = move_to(self, node)
        except BaseException:
            (self._policy or Default()).apply(self)
            raise
        self._policy = target
        return where

    def _prove(self, strict: bool) -> None:
        report = self.verify()
        if report.ok:
            return
        if strict and report.refusal:
            raise report.refusal
        if strict and _confined(self._policy) is not None:
            pages = report.placement.nodes if report.placement else {}
            raise PlacementError(errno.EIO, f"after populating, {report}", pages=pages)
        warnings.warn(PlacementWarning(str(report)), stacklevel=4)

    # -- memory operations that a region answers for ---------------------------------------------

    def advise(
        self, advice: SupportsIndex, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None
    ) -> None:
        """As Mapping.advise(), but for advice that would make touching the memory fatal: ValueError."""
        number = int(advice)
        if number in _FATAL:
            raise ValueError(f"advice {number} is refused for a SharedRegion: {_FATAL[number]}")
        super().advise(number, offset=offset, length=length)

    def resize(self, size: SupportsIndex, fd: int | _HasFileno | None = None) -> NoReturn:
        """Never: a region's size is sealed, which is what makes it safe to touch."""
        raise PermissionError(
            f"a SharedRegion keeps its size of {self.size} bytes, which peers rely on: create another of "
            f"{size}"
        )

    def lock(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None:
        """As Mapping.lock(); a refusal tells both numbers, asked and allowed."""
        try:
            super().lock(offset=offset, length=length)
        except OSError as refusal:
            raise locking.explained(refusal, self.mapped_size if length is None else int(length)) from refusal
        self._locked = self._locked or (not int(offset) and length is None)

    def unlock(self, *, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None:
        """As Mapping.unlock()."""
        super().unlock(offset=offset, length=length)
        self._locked = False

    def _try_lock(self, *, must: bool) -> None:
        try:
            self.lock()
        except OSError as refusal:
            if must:
                raise
            self._lock_refusal = refusal

    def array(
        self, dtype: DTypeLike, shape: SupportsIndex | Sequence[SupportsIndex] = -1, offset: int = 0
    ) -> NDArray[Any]:
        """A numpy array over the bytes from *offset* on: C-contiguous, aligned, no copy.

        One length of *shape* may be -1: as many whole items as there is room for. The
        array is a lease. Raises ValueError where it does not fit, is not aligned for
        *dtype*, or *dtype* holds Python objects.
        """
        from zerosys.arrays import array_over

        return array_over(self, self.size, dtype, shape, offset)

    def __dlpack__(self, **words: Any) -> Any:
        """A DLPack capsule of uint8[size] on the CPU, a lease while it lives; see array() for other types."""
        return self.array("u1").__dlpack__(**words)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kDLCPU, 0)."""
        return (1, 0)

    # -- given back --------------------------------------------------------------------------

    def close(self) -> None:
        """Give memory and descriptor back; others who attached keep theirs. Twice is fine.

        Raises BufferError while views are alive, and changes nothing then.
        """
        super().close()
        self._close_fd()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._close_fd()

    def __del__(self) -> None:
        self._close_fd()

    def _close_fd(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __reduce__(self) -> NoReturn:
        handle.refuse_pickle(self)


def _wanted(node: Spec | None, policy: Policy | None, strict: bool) -> Policy | None:
    """The policy that *node* or *policy* asks for; a node that does not exist is an error at once."""
    if node is None:
        return policy
    if policy is not None:
        raise ValueError(f"pass node={node!r} or policy={policy!r}, not both: a policy names its nodes")
    from zerosys.policy import Bind

    return Bind(node)


def _confined(policy: Policy | None) -> frozenset[int] | None:
    """The nodes that memory under *policy* may not leave; None where it may lie anywhere."""
    if policy is None or type(policy).__name__.startswith("Preferred"):
        return None
    return policy.nodes


def _reduce(region: SharedRegion) -> tuple[Any, ...]:
    """What multiprocessing's own pickler writes: the descriptor itself, which stays open
    until a spawned child has inherited it, and how to attach it."""
    carried = handle.carry(region.fileno(), region.particulars())
    return _rebuild, (type(region), carried, region.read_only, not region.sealed)


def _rebuild(cls: type[SharedRegion], carried: Any, read_only: bool, unsealed: bool) -> SharedRegion:
    with handle.arrive(*carried) as arrived:
        return cls.attach(arrived, read_only=read_only, unsealed=unsealed)


reduction.register(SharedRegion, _reduce)
