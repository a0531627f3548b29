"""Which device is meant, and in which context: nothing is made that was not asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Any, TypeAlias

from zerosys.cuda import backend, lifetime
from zerosys.cuda.backend import INVALID_CONTEXT, Context
from zerosys.errors import CudaError

Device: TypeAlias = Any  # an int, "cuda:0", or an object with index (torch.device) or id (cupy.cuda.Device)


def number_of(device: Device) -> int:
    """The number of *device*: an int, "cuda:0", a torch.device or a CuPy Device."""
    if isinstance(device, str):
        found = re.fullmatch(r"cuda(?::([0-9]+))?", device.strip())
        if not found:
            raise ValueError(f"device must be a number or text such as 'cuda:0', not {device!r}")
        return int(found[1] or 0)
    if getattr(device, "type", "cuda") != "cuda":
        raise ValueError(f"device must be a CUDA device, not {device!r}")
    for word in ("index", "id", "device_id"):  # torch, CuPy, cuda.core
        value = getattr(device, word, None)
        if value is not None and not callable(value):
            return index(value)
    if isinstance(device, bool) or not hasattr(device, "__index__"):
        raise TypeError(f"device must be a number or text such as 'cuda:0', not {device!r}")
    return index(device)


@contextmanager
def working(stream: int, device: Device | None = None) -> Iterator[Context]:
    """Have a context current inside the block: that of *stream*, the thread's, or else that of *device*.

    Raises CudaError where there is none of these.
    """
    cuda = backend.load()
    found, here = cuda.context_of(stream), cuda.current()
    if found is None:
        found = here if device is None or (here and here.device == number_of(device)) else None
    if found is not None and found == here:
        yield found
        return
    found = found or context_for(device)
    with backend.current(cuda, found):
        yield found


def context_for(device: Device | None) -> Context:
    """The context to work in: the primary one of *device*, or None: the thread's current one.

    Raises CudaError where there is none yet, Unsupported without a device, ValueError for a number
    that no device has.
    """
    cuda = backend.load()
    lifetime.refuse_fork()
    if device is not None:
        number = number_of(device)
        count = cuda.device_count()
        if not 0 <= number < count:
            raise ValueError(f"device must be 0 to {count - 1}, not {number}")
        found = cuda.current()
        return found if found and found.device == number else cuda.primary(number)
    found = cuda.current()
    if found is None:
        raise CudaError(
            INVALID_CONTEXT,
            "cuCtxGetCurrent",
            "no CUDA context is current on this thread, and none is made in silence: pass device=0 (or the "
            "device that is meant), or use the device first",
        )
    return found
