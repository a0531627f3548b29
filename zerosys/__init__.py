"""Linux's zero-copy calls and NUMA placement, composed into shared memory that lies where you asked."""

from importlib import import_module as _import_module
from os.path import dirname as _dirname

__version__ = "0.1.0"

# Each public name and the module it comes from, which is imported when the name is first asked for.
_HOME = {
    "Access": "hmat",
    "Advice": "flags",
    "Affinity": "locality",
    "Backing": "backing",
    "Bind": "policy",
    "Capability": "abilities",
    "CudaError": "errors",
    "Default": "policy",
    "FanOutResult": "pumps",
    "Full": "_ring",
    "Interleave": "policy",
    "Local": "policy",
    "MapFlag": "flags",
    "MappedRange": "numa_maps",
    "Mapping": "_mmap",
    "MemfdFlag": "flags",
    "MessageRing": "ring.message",
    "MoveFlag": "flags",
    "MoveTimeout": "errors",
    "Node": "machine",
    "NotReady": "errors",
    "NotRegisterable": "errors",
    "Overrun": "_ring",
    "PeerDead": "_ring",
    "Placement": "whereabouts",
    "PlacementError": "errors",
    "PlacementWarning": "errors",
    "Policy": "policy",
    "PolicyFlag": "flags",
    "PolicyMode": "flags",
    "Preferred": "policy",
    "PreferredMany": "policy",
    "Protection": "flags",
    "PumpError": "errors",
    "PumpResult": "pumps",
    "PumpTimeout": "errors",
    "RegionHandle": "handle",
    "RelayResult": "pumps",
    "RingCorrupt": "_ring",
    "Seal": "flags",
    "SharedRegion": "region",
    "ShortSource": "errors",
    "SinkResult": "pumps",
    "SpliceFlag": "flags",
    "StreamRing": "ring.stream",
    "SyncFlag": "flags",
    "Topology": "machine",
    "Unsupported": "errors",
    "Verification": "proof",
    "WeightedInterleave": "policy",
    "WouldCopy": "errors",
    "ZeroCopySend": "pumps",
    "add_seals": "_memfd",
    "available_memory": "limits",
    "capabilities": "abilities",
    "copy_file_range": "_splice",
    "cpu_set": "selection",
    "get_seals": "_memfd",
    "give": "pumps",
    "interleave_weights": "weights",
    "linkat": "_splice",
    "memfd_create": "_memfd",
    "memory_policy": "policy",
    "migrate": "migration",
    "move_to": "moving",
    "node_of": "locality",
    "node_set": "selection",
    "pipe_capacity": "_splice",
    "pipe_occupancy": "_splice",
    "placement": "whereabouts",
    "policy_of": "policy",
    "pump": "pumps",
    "read_numa_maps": "numa_maps",
    "receive": "pumps",
    "relay": "pumps",
    "run_on": "affinity",
    "send_zerocopy": "pumps",
    "sendfile": "_splice",
    "set_home_node": "homing",
    "set_interleave_weight": "weights",
    "set_pipe_capacity": "_splice",
    "splice": "_splice",
    "tee": "_splice",
    "topology": "machine",
    "vmsplice": "_splice",
}

# Modules whose functions are called by the module's name: zerosys.handle.send().
_MODULES = ("cuda", "doctor", "handle", "hugepages", "pumps", "shared_memory")

__all__ = ["__version__", "get_include", *_HOME]


def get_include() -> str:
    """Return the folder of the C headers, for an extension that cimports zerosys.

    Give it as include_dirs. Cython itself finds the ``.pxd`` files on sys.path.
    """
    return _dirname(__file__)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _import_module(f"{__name__}.{name}")
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(_import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
