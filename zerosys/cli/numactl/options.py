"""The options of numactl, and command lines that end in another command."""

from __future__ import annotations

from zerosys.cli.gnu import Option, Usage, parse

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLACEMENT = (
    Option("a", "all", help="name CPUs and nodes beyond the current affinity and cpuset, too"),
    Option("i", "interleave", "NODES", help="take memory from NODES in turn"),
    Option("w", "weighted-interleave", "NODES", help="in turn, each by its weight in sysfs (Linux 6.9)"),
    Option("p", "preferred", "NODE", help="take memory from NODE, and from elsewhere when it is full"),
    Option(
        "P", "preferred-many", "NODES", help="from NODES, and from elsewhere when these are full (Linux 5.15)"
    ),
    Option("m", "membind", "NODES", help="take memory from NODES only"),
    Option("l", "localalloc", help="take memory from the node of the CPU that touches it first"),
    Option("b", "balancing", help="let the kernel move pages between the nodes of --membind"),
    Option("N", "cpunodebind", "NODES", help="run on the CPUs of NODES only"),
    Option("c", "cpubind", "NODES", help="the old name of --cpunodebind"),
    Option("C", "physcpubind", "CPUS", help="run on CPUS only"),
)
TELLING = (
    Option("s", "show", help="tell the current policy and CPUs, after the options before it"),
    Option("H", "hardware", help="tell the machine's nodes"),
    Option("", "cpu-compress", help="with --hardware: CPUs as ranges, and how many"),
    Option("", "version", help="tell the version"),
)
SHARED = (
    Option(
        "L", "length", "SIZE", help="the bytes of shared memory; k, m or g may follow; before --shm or --file"
    ),
    Option("o", "offset", "SIZE", help="where in it they begin; before --shm or --file"),
    Option("M", "shmmode", "OCTAL", help="permissions of what is made; before --shm or --file"),
    Option("I", "shmid", "NUMBER", help="the project number of a System V key; before --shm"),
    Option("u", "huge", help="make the System V segment of huge pages; before --shm"),
    Option("S", "shm", "FILE", help="set the policy of the System V segment whose key file is FILE"),
    Option("f", "file", "FILE", help="set the policy of FILE, which lies in a tmpfs or hugetlbfs"),
    Option("t", "strict", help="fail where a page lies elsewhere already"),
    Option("T", "touch", help="make its pages exist"),
    Option("V", "verify", help="make its pages exist, and look whether they lie as the policy says"),
    Option("d", "dump", help="tell its policies"),
    Option("D", "dump-nodes", help="tell the nodes of its pages"),
)
NUMACTL = PLACEMENT + TELLING + SHARED


class Words:
    """The words of a command line: iterated, its options by their long names; then ``rest``, the command."""

    def __init__(self, argv: Sequence[str], options: Sequence[Option]) -> None:
        self.rest: list[str] = []
        self._argv, self._options = argv, options

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The options' names, each with its value or ""."""
        names = {option.short or option.long: option.long for option in self._options}
        try:
            for key, value in parse(self._argv, self._options, ordered=True):
                if key:
                    yield names[key], value or ""
                else:
                    self.rest.append(value or "")
        except Usage as wrong:
            raise Usage(f"{wrong}{self._hint(str(wrong))}") from None

    def _hint(self, wrong: str) -> str:
        """The option that was meant, perhaps, by one that is not known."""
        import difflib

        unknown = wrong.partition("unrecognized option '--")[2].removesuffix("'")
        near = difflib.get_close_matches(unknown, [option.long for option in self._options], 1)
        return f"; did you mean '--{near[0]}'?" if near else ""
