"""The options of numactl, and command lines read as getopt_long(3) reads them.

argparse would take options after the command's name for its own, and costs a start-up.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Usage(ValueError):
    """A command line that cannot be meant."""


class Option:
    """One option: its long name, its letter or "", what its value is called or "", and its help."""

    __slots__ = ("help", "name", "short", "value")

    def __init__(self, name: str, short: str, value: str, help: str) -> None:
        self.name, self.short, self.value, self.help = name, short, value, help


PLACEMENT = (
    Option("all", "a", "", "name CPUs and nodes beyond the current affinity and cpuset, too; comes first"),
    Option("interleave", "i", "NODES", "take memory from NODES in turn"),
    Option("weighted-interleave", "w", "NODES", "in turn, each by its weight in sysfs (Linux 6.9)"),
    Option("preferred", "p", "NODE", "take memory from NODE, and from elsewhere when it is full"),
    Option("preferred-many", "P", "NODES", "from NODES, and from elsewhere when these are full (Linux 5.15)"),
    Option("membind", "m", "NODES", "take memory from NODES only"),
    Option("localalloc", "l", "", "take memory from the node of the CPU that touches it first"),
    Option("balancing", "b", "", "let the kernel move pages between the nodes of --membind; comes before it"),
    Option("cpunodebind", "N", "NODES", "run on the CPUs of NODES only"),
    Option("cpubind", "c", "NODES", "the old name of --cpunodebind"),
    Option("physcpubind", "C", "CPUS", "run on CPUS only"),
)
TELLING = (
    Option("show", "s", "", "tell the current policy and CPUs, after the options before it"),
    Option("hardware", "H", "", "tell the machine's nodes"),
    Option("cpu-compress", "", "", "with --hardware: CPUs as ranges, and how many"),
    Option("version", "", "", "tell the version"),
)
SHARED = (
    Option("length", "L", "SIZE", "the bytes of shared memory; k, m or g may follow; before --shm or --file"),
    Option("offset", "o", "SIZE", "where in it they begin; before --shm or --file"),
    Option("shmmode", "M", "OCTAL", "permissions of what is made; before --shm or --file"),
    Option("shmid", "I", "NUMBER", "the project number of a System V key; before --shm"),
    Option("huge", "u", "", "make the System V segment of huge pages; before --shm"),
    Option("shm", "S", "FILE", "set the policy of the System V segment whose key file is FILE"),
    Option("file", "f", "FILE", "set the policy of FILE, which lies in a tmpfs or hugetlbfs"),
    Option("strict", "t", "", "fail where a page lies elsewhere already"),
    Option("touch", "T", "", "make its pages exist"),
    Option("verify", "V", "", "make its pages exist, and look whether they lie as the policy says"),
    Option("dump", "d", "", "tell its policies"),
    Option("dump-nodes", "D", "", "tell the nodes of its pages"),
)
NUMACTL = PLACEMENT + TELLING + SHARED


class Words:
    """The words of a command line: iterated, its options; then ``rest``, the command.

    Reading ends before the first word that is no option, or after ``--``. A long name may be
    cut short as long as it is one option's.
    """

    def __init__(self, argv: Sequence[str], options: Sequence[Option]) -> None:
        self.rest = list(argv)
        self._options = options

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The options' full names, each with its value or ""."""
        while self.rest and self.rest[0].startswith("-") and self.rest[0] != "-":
            word = self.rest.pop(0)
            if word == "--":
                return
            if word.startswith("--"):
                yield self._long(word)
            else:
                yield from self._letters(word[1:])

    def _long(self, word: str) -> tuple[str, str]:
        name, equals, value = word[2:].partition("=")
        option = self._named(name)
        if option.value:
            return option.name, value if equals else self._next(f"--{option.name}")
        if equals:
            raise Usage(f"option '--{option.name}' doesn't allow an argument")
        return option.name, ""

    def _named(self, name: str) -> Option:
        found = [option for option in self._options if option.name.startswith(name)]
        exact = [option for option in found if option.name == name]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if found:
            many = " ".join(f"'--{option.name}'" for option in found)
            raise Usage(f"option '--{name}' is ambiguous; possibilities: {many}")
        raise Usage(f"unrecognized option '--{name}'{_hint(name, self._options)}")

    def _letters(self, letters: str) -> Iterator[tuple[str, str]]:
        while letters:
            letter, letters = letters[0], letters[1:]
            option = next((option for option in self._options if option.short == letter), None)
            if option is None:
                raise Usage(f"invalid option -- '{letter}'")
            if option.value:
                yield option.name, letters or self._next(f"-{letter}")
                return
            yield option.name, ""

    def _next(self, option: str) -> str:
        if not self.rest:
            raise Usage(f"option '{option}' requires an argument")
        return self.rest.pop(0)


def _hint(name: str, options: Sequence[Option]) -> str:
    import difflib

    near = difflib.get_close_matches(name, [option.name for option in options], 1)
    return f"; did you mean '--{near[0]}'?" if near else ""
