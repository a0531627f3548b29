"""SharedRegion: memory that processes share, that lies where it was asked to lie."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, SupportsIndex

from zerosys import _dlpack, backing, filling, handle, names, pinned
from zerosys._descriptor import duplicate, own
from zerosys._memfd import F_SEAL_FUTURE_WRITE, add_seals
from zerosys._mmap import PROT_READ, PROT_WRITE, Mapping
from zerosys.backing import Backing
from zerosys.errors import PlacementError, Unsupported
from zerosys.handle import Particulars, RegionHandle
from zerosys.owned import HasFileno, OwnedMapping
from zerosys.refusal import warn
from zerosys.sizes import parse_size, show_size
from zerosys.wish import Wish, confined, wanted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from zerosys.nodes import Spec
    from zerosys.policy import Policy
    from zerosys.proof import Verification
    from zerosys.whereabouts import Placement


class SharedRegion(OwnedMapping):
    """Owns a mapping of shared memory and its descriptor; made by create() or attach().

    All its bytes are the user's: there is no header. It is a buffer (memoryview(region)
    is writable bytes, unless attached read-only), a context manager, and travels as an
    argument of a multiprocessing Process, through its Queue, Pipe and Pool, and by
    ``zerosys.handle.send(sock, region.handle())`` to any process.
    """

    _backing: Backing
    _policy: Policy | None = None
    _fill_later: bool = False

    def __new__(cls, *_: object, **__: object) -> Self:
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
        name: str | None = None,
        node: Spec | None = None,
        policy: Policy | None = None,
        pages: str = "auto",
        populate: bool = True,
        populate_in: Literal["creator", "attacher"] = "creator",
        lock: bool | Literal["try"] = False,
        strict: bool = True,
        force: bool = False,
        keep: bool = False,
        mode: int = 0o600,
    ) -> Self:
        """Make *size* bytes (an int, or "1GiB") of shared memory, or leave nothing behind.

        *node* (0, "0,2-3", "cuda:0", an Affinity: as node_set() takes it) binds it to nodes,
        *policy* (Bind, Preferred, ...) says it in full. *pages*: "base", "2M" or "1G"
        (hugetlb), "thp", or "auto": hugetlb where the nodes' own pool covers it, else base.
        Every page is populated by writing, on the node, and looked up afterwards;
        ``populate=False`` leaves that to the first touch (nameless base pages only),
        ``populate_in="attacher"`` to whoever attaches its handle first, whose cgroup then
        pays for the pages. *lock* keeps the pages from being swapped; "try" goes on
        without, and ``locked`` tells. Without *strict* a placement that is refused or
        missed, or a device whose node nobody tells, is a PlacementWarning instead of
        PlacementError. Where no node is left it is PlacementError all the same.
        *force* fills memory even where free memory or a cgroup's limit foretells the OOM
        killer. *mode* are the permissions of the file, whatever the umask.

        A *name* stands in /dev/shm, as other programs' POSIX shared memory does, huge
        pages in a hugetlbfs mount; it appears when the memory is complete, and stays until
        unlink(). Named memory cannot be sealed: a peer who may write it may truncate it.
        Unless *keep*, ``zerosys region gc`` may remove the name once nobody has it attached.

        Raises PlacementError (an unknown node, pages elsewhere, a refused call), OSError
        ENOMEM or ENOSPC before any byte is handed out, FileExistsError for a name that is
        taken, Unsupported for pages that this machine has not, ValueError for arguments
        that contradict each other.
        """
        if populate_in not in ("creator", "attacher"):
            raise ValueError(f"populate_in must be 'creator' or 'attacher', not {populate_in!r}")
        later = populate_in == "attacher"
        wish = Wish(
            parse_size(size),
            wanted(node, policy, strict),
            pages,
            populate and not later,
            later,
            lock,
            strict,
            force,
            mode,
            None if name is None else names.checked(name),
            keep,
        )
        wish.check()
        if pages != "auto":
            return cls._create(wish)
        best = backing.best_pages(wish.size, wish.nodes) if wish.populate else "base"
        if best != "base":
            try:
                return cls._create(replace(wish, pages=best))
            except OSError as short:
                if isinstance(short, PlacementError) or not (
                    isinstance(short, Unsupported) or filling.ran_out(short)
                ):
                    raise  # else others took the pool's pages meanwhile, or no mount takes the name
        return cls._create(replace(wish, pages="base"))

    @classmethod
    def _create(cls, wish: Wish) -> Self:
        pages, step = wish.pages, backing.granule(wish.pages)
        span = -(-wish.size // step) * step
        huge = backing.HUGE_PAGES.get(pages, 0)
        path = _free_path(wish.name, huge) if wish.name else None
        if huge and not wish.force:
            filling.require(span, huge, confined(wish.policy) if wish.strict else None)
        with ExitStack() as undo:
            fd, source, sealed = backing.open_backing(
                wish.size if pages == "base" else span, pages, wish.mode, path
            )
            undo.callback(fd.close)
            try:
                self = Mapping.__new__(cls, fd, wish.size, align=step if pages == "thp" else 0)
            except OSError as refusal:
                if wish.populate and not wish.force and filling.ran_out(refusal):
                    filling.require(span, huge, None)  # more than there is says it better than mmap does
                raise
            undo.pop_all()
            self._fd = fd
            undo.callback(self.close)
            self._furnish(wish, source, step if pages == "thp" else 0)
            got = filling.huge_bytes(self) if pages == "thp" else span if huge else 0
            self._backing = Backing(source, pages, self.page_size, got, sealed)
            if path:
                self._path = path
                undo.callback(self.unlink)
                names.publish(fd, path, keep=wish.keep)
            undo.pop_all()
        return self

    def _furnish(self, wish: Wish, source: str, thp: int) -> None:
        """Have the pages that *wish* asks for, of *thp* bytes if not 0: bound, populated, proved, locked."""
        # Before the first touch: a page is placed when it faults. And before fallocate,
        # which knows no policy: it put every page on the wrong node.
        effective = wish.policy.apply(self, strict=wish.strict) if wish.policy else None
        self._policy = effective if effective and effective.mode else None  # 0: the default, none
        self._fill_later = wish.fill_later
        if thp:
            filling.prefer_huge(self)
        if wish.populate:
            self._fill(source, thp, wish.force)
            if self._policy:
                self._prove(wish.strict)
        if wish.lock:
            self._try_lock(must=wish.lock is True)

    def _fill(self, source: str, thp: int, force: bool) -> None:
        near = self._policy.nodes or None if self._policy else None
        filling.fill(self, source, nodes=confined(self._policy), near=near, thp=thp, force=force)

    @classmethod
    def attach(
        cls,
        source: str | RegionHandle | int | HasFileno,
        *,
        read_only: bool = False,
        timeout: float = 0.0,
        unsealed: bool = False,
    ) -> Self:
        """Map the memory of a name, or that behind a handle or descriptor, which stay the caller's.

        Any POSIX shared memory can be attached by its name; *timeout* seconds are waited
        for a name that is not there or has no size yet. Of a name or a bare descriptor the
        size is that of the file. Pages that exist are mapped at once. Memory whose file
        could shrink under us is refused unless *unsealed*, or by name: touching
        what a peer truncated is SIGBUS. *read_only* keeps honest code honest; a
        real guard is forbid_new_writers().

        Raises FileNotFoundError or NotReady for a name, ValueError for a file that is too
        short for its handle, unsealed, or no memory at all, PermissionError for one that
        may not be written, OSError for the kernel's refusals; nothing stays open or mapped
        then, and what was found stays as it is.
        """
        told = source.particulars if isinstance(source, RegionHandle) else None
        path: str | None = None
        if isinstance(source, str):
            fd, path, about = names.join(names.checked(source), read_only=read_only, timeout=timeout)
        else:
            fd = duplicate(source)
        try:
            if path is None:
                found = backing.inspect(fd.fileno(), told, read_only=read_only, unsealed=unsealed)
            else:
                found = backing.found_by_name(about)
            align = backing.thp_size() if told and told.pages == "thp" else 0
            size = told.size if told else found.size
            protection = PROT_READ if read_only else PROT_READ | PROT_WRITE
            self = Mapping.__new__(cls, fd, size, protection=protection, align=align)
        except BaseException:
            fd.close()
            raise
        self._fd, self._path = fd, path
        try:
            self._settle(told, found, path is not None)
        except BaseException:
            self.close()
            raise
        return self

    def _settle(self, told: Particulars | None, found: backing.Found, named: bool) -> None:
        """What follows the mapping of a foreign file: its policy, its pages, what it is made of."""
        page = self.page_size
        huge = page > backing.BASE_PAGE
        if told and told.page_size != page:
            raise ValueError(
                f"the handle says pages of {told.page_size} bytes, and its descriptor has {page}: "
                "they do not belong together"
            )
        if told and told.policy:
            self._inherit(told.policy)
        if told and told.fill_later and not found.populated and not self.read_only:
            self._fill(found.source, 0, force=False)
        elif found.populated or huge:
            # hugetlb: a page that the pool lacks is an error here, and SIGBUS later.
            filling.map_in(self, write=not found.populated and not self.read_only)
        source = ("hugetlbfs" if huge else "tmpfs") if named else found.source
        pages = backing.huge_label(page) if huge else "thp" if told and told.pages == "thp" else "base"
        self._backing = Backing(source, pages, page, self.mapped_size if huge else 0, found.sealed)

    def _inherit(self, policy: dict[str, Any]) -> None:
        """Take over the creator's policy; a file of base pages keeps it itself, hugetlb per mapping."""
        from zerosys.policy import Policy, policy_of

        self._policy = Policy.from_dict(policy)
        if self.page_size > backing.BASE_PAGE:
            try:
                self._policy.apply(self)
            except PlacementError as refusal:
                # The pages that exist stay; only one that a peer punched out would be placed anew.
                warn(f"attached without its policy: {refusal}")
            return
        with suppress(PlacementError):  # no asking here: then the handle's word, old or a stranger's
            found = policy_of(self)
            self._policy = found if found.nodes else None

    def particulars(self) -> Particulars:
        """What a handle says of the region."""
        policy = self._policy.to_dict() if self._policy else None
        made = self._backing
        return Particulars(self.size, self.page_size, made.pages, made.source, policy, self._fill_later)

    def handle(self, *, read_only: bool = False) -> RegionHandle:
        """What another process needs to attach: a new descriptor, which the handle owns.

        With *read_only* it is one through which the memory cannot be mapped writable. Whoever has
        the right to open the file (its owner, and root) can still reopen it through /proc:
        forbid_new_writers() is for these.
        """
        if read_only:
            fd = own(os.open, f"/proc/self/fd/{self.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
        else:
            fd = duplicate(self)
        return RegionHandle(fd, self.particulars())

    # -- what it is --------------------------------------------------------------------------

    @property
    def backing(self) -> Backing:
        """What the memory is made of: source, pages got, whether sealed."""
        return self._backing

    @property
    def policy(self) -> Policy | None:
        """The memory policy in effect, nodes that the kernel dropped left out; None for none."""
        return self._policy

    @property
    def pinned(self) -> int:
        """The bytes that a device's driver has pinned: all of them once zerosys.cuda.register()ed, else 0."""
        return 0 if self.closed else min(pinned.covered(self.address, self.mapped_size), self.size)

    @property
    def sealed(self) -> bool:
        """Whether nobody can change the size of the file: touching the memory sends no signal."""
        return self._backing.sealed

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

    def move_to(self, node: Spec, *, timeout: float | None = None, offset: int = 0) -> Placement:
        """Bind the region to *node* (1, "cuda:0") and move its pages there, checked page by page.

        Returns the placement afterwards. Raises PlacementError with the count of pages
        that stayed and the remedy: pages that others have mapped too move only with
        CAP_SYS_NICE, and registered ones (zerosys.cuda) not at all. What moved stays moved,
        and the policy is then the one of before; so it is after MoveTimeout, whose
        ``offset`` goes on from there. See zerosys.move_to(), move_pages(2).
        """
        from zerosys.moving import move_to
        from zerosys.policy import Bind, Default
        from zerosys.selection import one_node

        pinned.refuse_moving(self.address, self.mapped_size)
        # The policy first: a page that appears meanwhile is then on the right node too.
        chosen = one_node(node)
        target = Bind(chosen).apply(self)
        try:
            where = move_to(self, chosen, timeout=timeout, offset=offset)
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
        if strict and confined(self._policy) is not None:
            pages = report.placement.nodes if report.placement else {}
            raise PlacementError(errno.EIO, f"after populating, {report}", pages=pages)
        warn(str(report))

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

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of uint8[size], a lease while it lives; see array() for other types.

        On the CPU, unless *dl_device* asks for CUDA host memory (3, 0) while the region is registered
        (zerosys.cuda.register()). torch takes the CPU's, and then finds it pinned. Raises BufferError
        for other devices, and for read-only memory unless *max_version* is (1, 0) or newer.
        """
        if dl_device is not None and dl_device[0] == _dlpack.CUDA_HOST:
            if self.pinned < self.size or copy:
                raise BufferError(
                    "CUDA host memory is registered memory, lent in place: zerosys.cuda.register() it"
                )
            return _dlpack.capsule(
                self, dl_device, 0, self.size, read_only=self.read_only, max_version=max_version
            )
        return self.array("u1").__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kDLCPU, 0)."""
        return (1, 0)

    def forbid_new_writers(self) -> None:
        """From now on nobody can map this memory writable; mappings that exist keep their rights.

        Raises Unsupported for memory with a name, which takes no seals. See fcntl(2),
        F_SEAL_FUTURE_WRITE.
        """
        if not self.sealed:
            raise Unsupported(
                errno.EPERM,
                "memory with a name takes no seals: create it nameless and hand it on by handle()",
            )
        add_seals(self.fileno(), F_SEAL_FUTURE_WRITE)

    def __reduce__(self) -> NoReturn:
        handle.refuse_pickle(self)


def _free_path(name: str, huge: int) -> str:
    """The path of *name* for memory in pages of *huge* bytes (0: base pages), which nobody has."""
    path = f"{names.folder_for(huge)}/{name}"
    if os.path.lexists(path):
        raise FileExistsError(
            errno.EEXIST,
            "the name is taken: attach to it, remove it (zerosys region rm), or take another",
            path,
        )
    return path


def _reduce(region: SharedRegion) -> tuple[Any, ...]:
    """What multiprocessing's own pickler writes: the descriptor itself, which stays open
    until a spawned child has inherited it, and how to attach it."""
    carried = handle.carry(region.fileno(), region.particulars())
    return _rebuild, (type(region), carried, region.read_only, not region.sealed)


def _rebuild(cls: type[SharedRegion], carried: Any, read_only: bool, unsealed: bool) -> SharedRegion:
    with handle.arrive(*carried) as arrived:
        return cls.attach(arrived, read_only=read_only, unsealed=unsealed)


reduction.register(SharedRegion, _reduce)
