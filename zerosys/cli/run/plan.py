"""What ``zerosys run`` is asked, what that means here, and giving this process that placement."""

from __future__ import annotations

from zerosys import _numa, nodes
from zerosys.cli.gnu import Option, Usage
from zerosys.cli.numactl import placing
from zerosys.cli.numactl.options import PLACEMENT, Words

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zerosys.locality import Affinity

OPTIONS = (
    *PLACEMENT,
    Option("", "gpu", "N", help="run and take memory where GPU N, or the GPU of that UUID, is near"),
    Option("", "nic", "NAME", help="run and take memory where network device NAME is near"),
    Option(
        "",
        "best-effort",
        help="leave out what cannot be had, with a warning, and run the command all the same",
    ),
    Option("", "allowed-only", help="leave out what this process's affinity and cpuset do not allow"),
    Option("", "plan", help="tell what the command would get, and run nothing"),
    Option("", "json", help="with --plan: as JSON (docs/schemas/run-plan.json)"),
    Option("h", "help", help="tell this"),
)
MODES = {
    "interleave": _numa.MPOL_INTERLEAVE,
    "weighted-interleave": _numa.MPOL_WEIGHTED_INTERLEAVE,
    "preferred": _numa.MPOL_PREFERRED,
    "preferred-many": _numa.MPOL_PREFERRED_MANY,
    "membind": _numa.MPOL_BIND,
    "localalloc": _numa.MPOL_LOCAL,
}
PINS = ("cpunodebind", "cpubind", "physcpubind")


class Asked:
    """The command line, read: options stand in any order here, and the last of a kind counts."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.flags: set[str] = set()
        self.pin: tuple[str, str] | None = None
        self.policy: tuple[str, str] | None = None
        self.devices: list[str] = []  # as node_of() takes them
        words = Words(argv, OPTIONS)
        for name, value in words:
            self._take(name, value)
        self.command = words.rest
        self._check()

    def _take(self, name: str, value: str) -> None:
        if name in PINS:
            self.pin = name, value
        elif name in MODES:
            if self.policy:
                raise Usage(f"--{self.policy[0]} and --{name} are two policies: give one")
            self.policy = name, value
        elif name == "gpu":
            self.devices.append(f"cuda:{value}" if value.isdigit() else f"gpu:{value}")
        elif name == "nic":
            self.devices.append(f"netdev:{value}")
        else:
            self.flags.add(name)

    def _check(self) -> None:
        if "help" in self.flags:
            return
        if {"all", "allowed-only"} <= self.flags:
            raise Usage("--all goes beyond what is allowed, and --allowed-only does not: give one")
        if "balancing" in self.flags and (not self.policy or self.policy[0] != "membind"):
            raise Usage("--balancing goes with --membind, which it is about")
        if "json" in self.flags and "plan" not in self.flags:
            raise Usage("--json goes with --plan: a command that is run prints what it likes")
        if not self.command and "plan" not in self.flags:
            raise Usage("a command is missing")


class Plan:
    """The CPUs and the policy that the command gets: None where it keeps this process's."""

    def __init__(self, asked: Asked) -> None:
        self.command = asked.command
        self.best_effort = "best-effort" in asked.flags
        self.cpus: frozenset[int] | None = None
        self.mode: int | None = None
        self.members: frozenset[int] = frozenset()
        self.near: list[Affinity] = []
        self._nearby: frozenset[int] = frozenset()
        self._sets = placing.Sets("all" in asked.flags, "allowed-only" in asked.flags, self.best_effort)
        self.remarks = self._sets.remarks
        self._asked = asked
        for device in asked.devices:
            self._try(self._look_at, device)
        self._try(self._choose_cpus)
        self._try(self._choose_memory)

    def apply(self) -> None:
        """Give this process that placement, and read back what the kernel made of it.

        Raises OSError for what cannot be had; with best effort that is left out and remarked.
        """
        self._try(self._pin)
        self._try(self._bind)

    def _try(self, step: Callable[..., None], *words: str) -> None:
        try:
            step(*words)
        except OSError as refusal:
            if not self.best_effort:
                raise
            from zerosys.cli import said

            self.remarks.append(said(refusal))

    def _look_at(self, device: str) -> None:
        from zerosys.locality import node_of

        affinity = node_of(device)
        self.near.append(affinity)
        self._nearby |= {affinity.__index__()}  # without a node, an error that tells who was asked

    def _choose_cpus(self) -> None:
        sets = self._sets
        if self._asked.pin:
            option, text = self._asked.pin
            self.cpus = (sets.cpus if option == "physcpubind" else sets.cpus_of)(text)
        elif self._nearby:
            self.cpus = sets.cpus_near(self._nearby)

    def _choose_memory(self) -> None:
        if self._asked.policy:
            option, text = self._asked.policy
            members = frozenset[int]() if option == "localalloc" else self._sets.memory(text)
            if option == "preferred" and len(members) != 1:
                raise Usage(f"--preferred takes one node, not {nodes.format(members)}: use --preferred-many")
            self.mode, self.members = MODES[option], members
            if "balancing" in self._asked.flags:
                self.mode |= _numa.MPOL_F_NUMA_BALANCING
        elif self._nearby:
            self.members = self._sets.usable_memory(self._nearby)
            self.mode = _numa.MPOL_BIND

    def _pin(self) -> None:
        if self.cpus is not None:
            wanted, self.cpus = self.cpus, None
            self.cpus = placing.run_on(wanted)

    def _bind(self) -> None:
        if self.mode is None:
            return
        mode, self.mode = self.mode, None
        placing.set_policy(mode, self.members)
        self.mode = mode
        effective = placing.effective_nodes(self.members)
        lost, self.members = self.members - effective, effective
        if lost:
            raise placing.dropped(lost)
