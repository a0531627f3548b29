"""Memory that a GPU reads at link speed or in place: registered, mapped, staged only when told.

Importable without a GPU, a driver and cuda-bindings: memory_model() says what is there.
"""

from importlib import import_module as _import_module

from zerosys._slots import StaleSlot
from zerosys.errors import CudaError, NotRegisterable

# Each public name and the module it comes from, which is imported when the name is first asked for.
_HOME = {
    "Copied": "copies",
    "DeviceBlock": "device_pool",
    "DevicePool": "device_pool",
    "DeviceView": "view",
    "Fence": "fences",
    "HostBlock": "host_pool",
    "HostPool": "host_pool",
    "MemoryKind": "model",
    "MemoryModel": "model",
    "Pipeline": "pipeline",
    "PipelineStats": "pipeline",
    "PoolStats": "pool",
    "Registration": "registration",
    "Slot": "slots",
    "SlotPool": "slots",
    "Stats": "counters",
    "copy": "copies",
    "expect_no_staging": "counters",
    "memory_model": "model",
    "pinned": "working_set",
    "register": "registration",
    "release_pinned": "working_set",
    "stats": "counters",
}

# Modules whose functions are called by the module's name: cuda.storage.read().
_MODULES = ("storage",)

__all__ = ["CudaError", "NotRegisterable", "StaleSlot", *_HOME]


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
