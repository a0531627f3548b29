from zerosys._slots import StaleSlot as StaleSlot
from zerosys.cuda import storage as storage
from zerosys.cuda.copies import Copied as Copied
from zerosys.cuda.copies import copy as copy
from zerosys.cuda.counters import Stats as Stats
from zerosys.cuda.counters import expect_no_staging as expect_no_staging
from zerosys.cuda.counters import stats as stats
from zerosys.cuda.device_pool import DeviceBlock as DeviceBlock
from zerosys.cuda.device_pool import DevicePool as DevicePool
from zerosys.cuda.fences import Fence as Fence
from zerosys.cuda.host_pool import HostBlock as HostBlock
from zerosys.cuda.host_pool import HostPool as HostPool
from zerosys.cuda.model import MemoryKind as MemoryKind
from zerosys.cuda.model import MemoryModel as MemoryModel
from zerosys.cuda.model import memory_model as memory_model
from zerosys.cuda.pipeline import Pipeline as Pipeline
from zerosys.cuda.pipeline import PipelineStats as PipelineStats
from zerosys.cuda.pool import PoolStats as PoolStats
from zerosys.cuda.registration import Registration as Registration
from zerosys.cuda.registration import register as register
from zerosys.cuda.slots import Slot as Slot
from zerosys.cuda.slots import SlotPool as SlotPool
from zerosys.cuda.view import DeviceView as DeviceView
from zerosys.cuda.working_set import pinned as pinned
from zerosys.cuda.working_set import release_pinned as release_pinned
from zerosys.errors import CudaError as CudaError
from zerosys.errors import NotRegisterable as NotRegisterable

__all__ = [
    "Copied",
    "CudaError",
    "DeviceBlock",
    "DevicePool",
    "DeviceView",
    "Fence",
    "HostBlock",
    "HostPool",
    "MemoryKind",
    "MemoryModel",
    "NotRegisterable",
    "Pipeline",
    "PipelineStats",
    "PoolStats",
    "Registration",
    "Slot",
    "SlotPool",
    "StaleSlot",
    "Stats",
    "copy",
    "expect_no_staging",
    "memory_model",
    "pinned",
    "register",
    "release_pinned",
    "stats",
]
