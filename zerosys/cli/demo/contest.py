"""The rounds: our way and the ordinary way in turn, by the same three processes on the same bytes."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from statistics import median
from typing import Any

from zerosys.cli.demo.crew import CONTEXT, Crew
from zerosys.cli.demo.roles import Reader, Receiver, Sender

GIB = 1 << 30
ROLES = ("sender", "receiver", "reader")
WAYS = ("zerosys", "ordinary")
# Pieces that wait between receiver and reader the ordinary way: enough that neither waits for the other.
QUEUED = 256


@dataclass(frozen=True)
class Plan:
    """What to move, whereto, and how often."""

    path: str | None
    size: int
    node: int | None
    pages: str
    rounds: int
    timeout: float


def run(plan: Plan) -> dict[str, Any]:
    """Hold the contest; return everything that was seen, as JSON would have it."""
    import socket

    ours, theirs = socket.socketpair()
    told, tell = CONTEXT.Pipe(duplex=False)
    queue = CONTEXT.Queue(QUEUED)
    arguments = {
        "sender": (Sender, (plan.path, plan.size, plan.timeout)),
        "receiver": (Receiver, (ours, tell, queue, plan.timeout)),
        "reader": (Reader, (theirs, told, queue, plan.timeout)),
    }
    with ours, theirs, told, tell, Crew(arguments, plan.timeout) as crew:
        # Only the two ends in the children are left: a peer's death is the end of the stream.
        for end in (ours, theirs, told, tell):
            end.close()
        return _Contest(crew, plan).held()


class _Contest:
    def __init__(self, crew: Crew, plan: Plan) -> None:
        self.crew, self.plan = crew, plan
        self.file = self._one("sender", "about")
        self.size: int = self.file["bytes"]
        self.port = self._one("receiver", "port")

    def _one(self, role: str, method: str, **words: Any) -> Any:
        return self.crew.ask(**{role: (method, words)})[role]

    def held(self) -> dict[str, Any]:
        size, plan = {"size": self.size}, self.plan
        region = self._one(
            "receiver", "make_region", size=max(self.size, 1), node=plan.node, pages=plan.pages
        )
        self.crew.ask(reader=("attach", {}), receiver=("hand_over", {}))
        # An untimed round each: code is loaded, buffers are warm, and the ordinary way's bytes are hashed.
        self._zerosys()
        hashed = self._round("hash_ordinary", "receive_ordinary", "send_ordinary")["reader"]
        before = self._descriptors()
        rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        ticks = dict.fromkeys(WAYS, 0.0)
        for _ in range(plan.rounds):
            for way, hold in zip(WAYS, (self._zerosys, self._ordinary), strict=True):
                self._one("receiver", "wipe")
                start = self._ticks()
                rounds[way].append(hold())
                ticks[way] += self._ticks() - start
        after = self._descriptors()
        self._one("receiver", "wipe")
        self._zerosys()  # so what the reader now hashes came by this way, and just now
        return {
            "file": {"name": plan.path, **self.file},
            "machine": {"kernel": platform.release(), "cpus": len(os.sched_getaffinity(0))},
            "region": region | {"asked_pages": plan.pages, "proof": self._one("receiver", "proof")},
            "reader": self._one("reader", "proof", **size),
            "ordinary_sha256": hashed["sha256"],
            "descriptors": {"before": before, "after": after},
            "ways": {way: _summary(rounds[way], self.size) | {"psutil_cpu_s": ticks[way]} for way in WAYS},
        }

    def _zerosys(self) -> dict[str, Any]:
        return self._round("read", "receive", "send")

    def _ordinary(self) -> dict[str, Any]:
        return self._round("read_ordinary", "receive_ordinary", "send_ordinary")

    def _round(self, read: str, receive: str, send: str) -> dict[str, Any]:
        self.crew.ask(receiver=("accept", {}), sender=("connect", {"port": self.port}))
        size = {"size": self.size}
        return self.crew.ask(reader=(read, size), receiver=(receive, size), sender=(send, size))

    def _descriptors(self) -> dict[str, int]:
        return self.crew.ask(**{role: ("descriptors", {}) for role in ROLES})

    def _ticks(self) -> float:
        """The processor seconds of all three so far, as psutil counts them."""
        import psutil

        times = [psutil.Process(pid).cpu_times() for pid in self.crew.pids().values()]
        return float(sum(time.user + time.system for time in times))


def _summary(rounds: list[dict[str, Any]], size: int) -> dict[str, Any]:
    """The medians of *rounds*, and the counts, which are the worst of any round."""
    seconds = [held["reader"]["end"] - held["sender"]["start"] for held in rounds]
    gib = max(size, 1) / GIB
    cpu = {role: median(held[role]["cpu"] for held in rounds) / gib for role in ROLES}
    cpu["all"] = median(sum(held[role]["cpu"] for role in ROLES) for held in rounds) / gib
    counts = {
        name: [sum(held[role].get(name, 0) for role in ROLES) for held in rounds]
        for name in ("moved", "received", "copied", "stranded")
    }
    return {
        "seconds": seconds,
        "gb_per_s": size / median(seconds) / 1e9,
        "cpu_s_per_gib": cpu,
        "cpu_s": sum(held[role]["cpu"] for held in rounds for role in ROLES),
        **{
            name: min(values) if name in ("moved", "received") else max(values)
            for name, values in counts.items()
        },
        "path": {role: rounds[0][role]["path"] for role in ("sender", "receiver")},
        "pipe_size": rounds[0]["sender"].get("pipe_size"),
        "checksums": [held["reader"]["checksum"] for held in rounds],
        "flags_restored": all(held["sender"].get("flags_restored", True) for held in rounds),
    }
