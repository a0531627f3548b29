from zerosys import cuda as cuda
from zerosys import doctor as doctor
from zerosys import handle as handle
from zerosys import hugepages as hugepages
from zerosys import pumps as pumps
from zerosys import shared_memory as shared_memory
from zerosys._memfd import add_seals as add_seals
from zerosys._memfd import get_seals as get_seals
from zerosys._memfd import memfd_create as memfd_create
from zerosys._mmap import Mapping as Mapping
from zerosys._ring import Full as Full
from zerosys._ring import Overrun as Overrun
from zerosys._ring import PeerDead as PeerDead
from zerosys._ring import RingCorrupt as RingCorrupt
from zerosys._splice import copy_file_range as copy_file_range
from zerosys._splice import linkat as linkat
from zerosys._splice import pipe_capacity as pipe_capacity
from zerosys._splice import pipe_occupancy as pipe_occupancy
from zerosys._splice import sendfile as sendfile
from zerosys._splice import set_pipe_capacity as set_pipe_capacity
from zerosys._splice import splice as splice
from zerosys._splice import tee as tee
from zerosys._splice import vmsplice as vmsplice
from zerosys.abilities import Capability as Capability
from zerosys.abilities import capabilities as capabilities
from zerosys.affinity import run_on as run_on
from zerosys.backing import Backing as Backing
from zerosys.errors import CudaError as CudaError
from zerosys.errors import MoveTimeout as MoveTimeout
from zerosys.errors import NotReady as NotReady
from zerosys.errors import NotRegisterable as NotRegisterable
from zerosys.errors import PlacementError as PlacementError
from zerosys.errors import PlacementWarning as PlacementWarning
from zerosys.errors import PumpError as PumpError
from zerosys.errors import PumpTimeout as PumpTimeout
from zerosys.errors import ShortSource as ShortSource
from zerosys.errors import Unsupported as Unsupported
from zerosys.errors import WouldCopy as WouldCopy
from zerosys.flags import Advice as Advice
from zerosys.flags import MapFlag as MapFlag
from zerosys.flags import MemfdFlag as MemfdFlag
from zerosys.flags import MoveFlag as MoveFlag
from zerosys.flags import PolicyFlag as PolicyFlag
from zerosys.flags import PolicyMode as PolicyMode
from zerosys.flags import Protection as Protection
from zerosys.flags import Seal as Seal
from zerosys.flags import SpliceFlag as SpliceFlag
from zerosys.flags import SyncFlag as SyncFlag
from zerosys.handle import RegionHandle as RegionHandle
from zerosys.hmat import Access as Access
from zerosys.homing import set_home_node as set_home_node
from zerosys.limits import available_memory as available_memory
from zerosys.locality import Affinity as Affinity
from zerosys.locality import node_of as node_of
from zerosys.machine import Node as Node
from zerosys.machine import Topology as Topology
from zerosys.machine import topology as topology
from zerosys.migration import migrate as migrate
from zerosys.moving import move_to as move_to
from zerosys.numa_maps import MappedRange as MappedRange
from zerosys.numa_maps import read_numa_maps as read_numa_maps
from zerosys.policy import Bind as Bind
from zerosys.policy import Default as Default
from zerosys.policy import Interleave as Interleave
from zerosys.policy import Local as Local
from zerosys.policy import Policy as Policy
from zerosys.policy import Preferred as Preferred
from zerosys.policy import PreferredMany as PreferredMany
from zerosys.policy import WeightedInterleave as WeightedInterleave
from zerosys.policy import memory_policy as memory_policy
from zerosys.policy import policy_of as policy_of
from zerosys.proof import Verification as Verification
from zerosys.pumps import FanOutResult as FanOutResult
from zerosys.pumps import PumpResult as PumpResult
from zerosys.pumps import RelayResult as RelayResult
from zerosys.pumps import SinkResult as SinkResult
from zerosys.pumps import ZeroCopySend as ZeroCopySend
from zerosys.pumps import give as give
from zerosys.pumps import pump as pump
from zerosys.pumps import receive as receive
from zerosys.pumps import relay as relay
from zerosys.pumps import send_zerocopy as send_zerocopy
from zerosys.region import SharedRegion as SharedRegion
from zerosys.ring.message import MessageRing as MessageRing
from zerosys.ring.stream import StreamRing as StreamRing
from zerosys.selection import cpu_set as cpu_set
from zerosys.selection import node_set as node_set
from zerosys.weights import interleave_weights as interleave_weights
from zerosys.weights import set_interleave_weight as set_interleave_weight
from zerosys.whereabouts import Placement as Placement
from zerosys.whereabouts import placement as placement

__version__: str
__all__ = [
    "Access",
    "Advice",
    "Affinity",
    "Backing",
    "Bind",
    "Capability",
    "CudaError",
    "Default",
    "FanOutResult",
    "Full",
    "Interleave",
    "Local",
    "MapFlag",
    "MappedRange",
    "Mapping",
    "MemfdFlag",
    "MessageRing",
    "MoveFlag",
    "MoveTimeout",
    "Node",
    "NotReady",
    "NotRegisterable",
    "Overrun",
    "PeerDead",
    "Placement",
    "PlacementError",
    "PlacementWarning",
    "Policy",
    "PolicyFlag",
    "PolicyMode",
    "Preferred",
    "PreferredMany",
    "Protection",
    "PumpError",
    "PumpResult",
    "PumpTimeout",
    "RegionHandle",
    "RelayResult",
    "RingCorrupt",
    "Seal",
    "SharedRegion",
    "ShortSource",
    "SinkResult",
    "SpliceFlag",
    "StreamRing",
    "SyncFlag",
    "Topology",
    "Unsupported",
    "Verification",
    "WeightedInterleave",
    "WouldCopy",
    "ZeroCopySend",
    "__version__",
    "add_seals",
    "available_memory",
    "capabilities",
    "copy_file_range",
    "cpu_set",
    "get_include",
    "get_seals",
    "give",
    "interleave_weights",
    "linkat",
    "memfd_create",
    "memory_policy",
    "migrate",
    "move_to",
    "node_of",
    "node_set",
    "pipe_capacity",
    "pipe_occupancy",
    "placement",
    "policy_of",
    "pump",
    "read_numa_maps",
    "receive",
    "relay",
    "run_on",
    "send_zerocopy",
    "sendfile",
    "set_home_node",
    "set_interleave_weight",
    "set_pipe_capacity",
    "splice",
    "tee",
    "topology",
    "vmsplice",
]

def get_include() -> str: ...
