"""numactl's command line, option by option: each takes effect where it stands, as numactl's do."""

from __future__ import annotations

import sys

from zerosys import _numa, nodes
from zerosys.cli.gnu import Usage
from zerosys.cli.numactl import placing
from zerosys.cli.numactl.options import NUMACTL, Words
from zerosys.cli.numactl.wish import Wish, parse_project, parse_size

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zerosys.cli.numactl.shared import Attached

#: The numactl whose options these are.
NEWEST = "2.0.19"


class Done(Exception):
    """There is no more to do; the exit status."""

    def __init__(self, status: int = 0) -> None:
        self.status = status


class Session:
    """One run: what was asked so far, and the shared memory that it is about, if any."""

    def __init__(self, prog: str) -> None:
        self._prog = prog
        self._sets = placing.Sets()
        self._mode: int | None = None
        self._members: frozenset[int] = frozenset()
        self._balancing = self._hardware = self._compress = self._strict = False
        self._named = self._pinned = False
        self._memory: Attached | None = None
        self._shared_option = ""  # the last one that only means something with shared memory
        self._status = 0
        self._wish = Wish()

    def command(self, argv: Sequence[str]) -> list[str]:
        """Obey the options in *argv*; return the command that follows them. Raises Done where that is all."""
        words = Words(argv, NUMACTL)
        for name, value in words:
            getattr(self, "_on_" + name.replace("-", "_"))(value)
            self._remark()
        if self._hardware:
            self._print_hardware()
        if self._memory is not None:
            if words.rest:
                raise Usage(f"shared memory was named, so {words.rest[0]!r} is not run: leave it out")
            raise Done(self._status)
        if self._strict:
            print(f"{self._prog}: warning. Strict flag for process ignored.", file=sys.stderr)
        if self._shared_option:
            raise Usage(f"{self._shared_option} is for shared memory: name it by --shm or --file")
        if not words.rest:
            raise Usage("a command is missing")
        return words.rest

    def _remark(self) -> None:
        for remark in self._sets.remarks:
            print(f"{self._prog}: warning: {remark}", file=sys.stderr)
        self._sets.remarks.clear()

    # --- where to run ------------------------------------------------------------------------

    def _on_cpunodebind(self, text: str) -> None:
        self._pin("--cpunodebind", self._sets.cpus_of, text)

    _on_cpubind = _on_cpunodebind

    def _on_physcpubind(self, text: str) -> None:
        self._pin("--physcpubind", self._sets.cpus, text)

    def _pin(self, option: str, read: Callable[[str], frozenset[int]], text: str) -> None:
        if self._shared_option:
            raise Usage(f"{self._shared_option} is for shared memory, which {option} has nothing to do with")
        cpus = _read(read, text)
        self._pinned = self._named = True
        placing.run_on(cpus)

    # --- where memory comes from ----------------------------------------------------------------

    def _on_interleave(self, text: str) -> None:
        self._take(_numa.MPOL_INTERLEAVE, text)

    def _on_weighted_interleave(self, text: str) -> None:
        self._take(_numa.MPOL_WEIGHTED_INTERLEAVE, text)

    def _on_membind(self, text: str) -> None:
        self._take(_numa.MPOL_BIND, text)

    def _on_preferred_many(self, text: str) -> None:
        self._take(_numa.MPOL_PREFERRED_MANY, text)

    def _on_preferred(self, text: str) -> None:
        self._take(_numa.MPOL_PREFERRED, text)

    def _on_localalloc(self, _: str) -> None:
        self._choose(_numa.MPOL_LOCAL)
        self._apply()

    def _take(self, mode: int, text: str) -> None:
        self._choose(mode)
        if not text and mode in (_numa.MPOL_INTERLEAVE, _numa.MPOL_WEIGHTED_INTERLEAVE):
            self._mode, self._members = _numa.MPOL_DEFAULT, frozenset()  # numactl takes no nodes as no policy
        else:
            self._members = _read(self._sets.memory, text)
        self._named = True
        if mode == _numa.MPOL_PREFERRED and len(self._members) != 1:
            raise Usage(
                f"--preferred takes one node, not {nodes.format(self._members)}: use --preferred-many"
            )
        self._apply()

    def _choose(self, mode: int) -> None:
        if self._mode is not None:
            raise Usage("Conflicting policies: give one of them")
        self._mode = mode

    def _apply(self) -> None:
        assert self._mode is not None
        if self._memory is not None:
            self._memory.bind(self._mode, self._members, self._strict)
            return
        flags = _numa.MPOL_F_NUMA_BALANCING if self._balancing and self._mode == _numa.MPOL_BIND else 0
        placing.set_policy(self._mode | flags, self._members)
        # Within what is allowed the kernel drops nothing; and a filter may refuse the question alone.
        if self._sets.whole and (lost := self._members - placing.effective_nodes(self._members)):
            self._sets.remarks.append(str(placing.dropped(lost)))

    # --- what is asked of the rest --------------------------------------------------------------

    def _on_all(self, _: str) -> None:
        if self._named:
            raise Usage("--all/-a option must be before all cpu/node specifications")
        self._sets.whole = True

    def _on_balancing(self, _: str) -> None:
        self._before_policy("--balancing")
        self._balancing = True

    def _before_policy(self, option: str) -> None:
        if self._mode is not None:
            raise Usage(f"{option} comes before the policy")

    def _on_show(self, _: str) -> None:
        from zerosys.cli.numactl import telling

        if not telling.has_numa():
            sys.stdout.write(telling.show_cpus() + "No NUMA support available on this system.\n")
            raise Done(1)
        sys.stdout.write(telling.show())
        raise Done

    def _on_hardware(self, _: str) -> None:
        self._before_policy("--hardware")
        self._hardware = True

    def _on_cpu_compress(self, _: str) -> None:
        self._compress = True

    def _print_hardware(self) -> None:
        from zerosys.cli.numactl import telling

        if not telling.has_numa():
            sys.stdout.write("No NUMA available on this system\n")
            raise Done(1)
        sys.stdout.write(telling.hardware(self._sets.machine, self._compress))
        raise Done

    def _on_version(self, _: str) -> None:
        from zerosys import __version__

        self._before_policy("--version")
        print(f"{NEWEST} (zerosys {__version__})")
        raise Done

    # --- shared memory -----------------------------------------------------------------------

    def _on_length(self, text: str) -> None:
        self._wish.length = self._size("--length", text)

    def _on_offset(self, text: str) -> None:
        self._wish.offset = self._size("--offset", text)

    def _on_huge(self, _: str) -> None:
        self._before_memory("--huge")
        self._wish.huge = True

    def _on_shmmode(self, text: str) -> None:
        self._before_memory("--shmmode")
        if not text or text.strip("01234567") or int(text, 8) > 0o777:
            raise Usage(f"--shmmode is permissions in octal, 0 to 777, not {text!r}")
        self._wish.mode = int(text, 8)

    def _on_shmid(self, text: str) -> None:
        self._wish.project = parse_project(text)

    def _size(self, option: str, text: str) -> int:
        self._before_memory(option)
        return parse_size(text)

    def _before_memory(self, option: str) -> None:
        if self._memory is not None:
            raise Usage(f"{option} must be before shared memory specification")
        self._shared_option = option

    def _on_shm(self, path: str) -> None:
        from zerosys.cli.numactl.shared import attach_segment

        self._attach("--shm", attach_segment, path)

    def _on_file(self, path: str) -> None:
        from zerosys.cli.numactl.shared import attach_file

        self._attach("--file", attach_file, path)

    def _attach(self, option: str, attach: Callable[..., Attached], path: str) -> None:
        if self._pinned:
            raise Usage(f"CPUs have nothing to do with shared memory: leave them out before {option}")
        self._before_policy(option)
        self._memory = attach(path, self._wish)

    def _on_strict(self, _: str) -> None:
        self._strict = True

    def _needed(self, option: str) -> Attached:
        if self._memory is None:
            raise Usage(f"{option} must be after shared memory specification")
        return self._memory

    def _on_touch(self, _: str) -> None:
        self._needed("--touch").touch(write=True)

    def _on_verify(self, _: str) -> None:
        from zerosys.cli.numactl.verifying import verify

        memory = self._needed("--verify")
        if self._mode is None:
            raise Usage("--verify needs a policy before it")
        wrong = verify(memory, self._mode, self._members)
        sys.stdout.write(wrong)
        if wrong:
            self._status = 1

    def _on_dump(self, _: str) -> None:
        from zerosys.cli.numactl.verifying import dump

        sys.stdout.write(dump(self._needed("--dump")))

    def _on_dump_nodes(self, _: str) -> None:
        from zerosys.cli.numactl.verifying import dump_nodes

        sys.stdout.write(dump_nodes(self._needed("--dump-nodes")))


def _read(read: Callable[[str], frozenset[int]], text: str) -> frozenset[int]:
    """What *text* means, with the words that numactl has for what it cannot read."""
    try:
        return read(text)
    except (OSError, ValueError) as failure:
        from zerosys.cli import said

        raise ValueError(f"<{text}> is invalid: {said(failure)}") from failure
