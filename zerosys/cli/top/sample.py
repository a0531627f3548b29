"""One look at the machine: each node's memory and counters, and the largest processes by node."""

from __future__ import annotations

import time

from zerosys.machine import node_ids
from zerosys.numa_maps import bytes_by_node, require_procfs
from zerosys.sysfs import sizes, text

#: What the kernel counts of each node's pages, in its order; see numastat in the kernel's documentation.
COUNTERS = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")
_NODES = "/sys/devices/system/node"


class NodeSample:
    """A node's bytes, and its counters in pages since boot; none where the kernel does not count."""

    def __init__(self, node: int) -> None:
        self.node = node
        folder = f"{_NODES}/node{node}"
        # A kernel without NUMA has no such folder: all memory is node 0's.
        memory = sizes(f"{folder}/meminfo", prefix=f"Node {node} ") or sizes("/proc/meminfo")
        self.total, self.free = memory.get("MemTotal", 0), memory.get("MemFree", 0)
        self.files = memory.get("FilePages", memory.get("Cached", 0))
        self.anonymous = memory.get("AnonPages", 0)
        words = (text(f"{folder}/numastat") or "").split()
        told = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        self.counters = {name: told[name] for name in COUNTERS if name in told}


class ProcessSample:
    """A process, and its bytes by node."""

    def __init__(self, pid: int, name: str, uid: int) -> None:
        self.pid, self.name, self.uid = pid, name, uid
        self.nodes = bytes_by_node(pid)

    @property
    def bytes(self) -> int:
        return sum(self.nodes.values())


class Sample:
    """The nodes and the *count* largest processes; with *before*, what came since then."""

    def __init__(self, count: int, before: Sample | None = None) -> None:
        self.time, self._clock = time.time(), time.monotonic()
        self.nodes = [NodeSample(node) for node in node_ids()]
        self.processes: list[ProcessSample] = []
        self.unread = 0  # of the largest, those that may not be looked into
        self._read_largest(count)
        self.seconds = self._clock - before._clock if before else None
        self.rates = self._since(before) if before else {}

    def _read_largest(self, count: int) -> None:
        require_procfs()
        import psutil

        resident = []
        for process in psutil.process_iter(["name", "memory_info", "uids"]):
            told = process.info
            if told["memory_info"] and told["memory_info"].rss:
                resident.append((told["memory_info"].rss, process.pid, told["name"], told["uids"].real))
        for _, pid, name, uid in sorted(resident, reverse=True):
            if len(self.processes) + self.unread >= count:
                break
            try:
                self.processes.append(ProcessSample(pid, name, uid))
            except ProcessLookupError:
                continue  # it ended meanwhile
            except OSError:
                self.unread += 1
        self.processes.sort(key=lambda one: -one.bytes)

    def _since(self, before: Sample) -> dict[int, dict[str, float]]:
        """Pages a second by node and counter."""
        earlier = {one.node: one.counters for one in before.nodes}
        seconds = self.seconds or 1.0
        return {
            one.node: {
                name: max(0, value - earlier[one.node][name]) / seconds
                for name, value in one.counters.items()
                if name in earlier[one.node]
            }
            for one in self.nodes
            if one.node in earlier  # one that came meanwhile has nothing to be compared with
        }
