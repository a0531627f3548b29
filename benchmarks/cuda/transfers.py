"""How fast are copies from and to a region, against torch's pinned memory and pageable memory?"""

from __future__ import annotations

import torch

from benchmarks.common import Bar, Row
from benchmarks.cuda.question import GIB, Question, add_up, on_device, pattern, timed
from zerosys import SharedRegion, cuda


class OfTorch:
    """A torch tensor on the device, for cuda.copy()."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


def build(quick: bool) -> Question:
    """Rows in seconds a copy of *size* bytes; each copy is compared at the end."""
    size = GIB // 64 if quick else GIB
    words = pattern(size // 4, 1)
    region = SharedRegion.create(size, pages="base")
    registration = cuda.register(region)
    region.array("u4")[:] = words
    ours = torch.from_dlpack(region.array("i4"))
    pinned = torch.empty(size // 4, dtype=torch.int32, pin_memory=True)
    pinned.numpy().view("u4")[:] = words
    plain = SharedRegion.create(size, pages="base")
    plain.array("u4")[:] = words
    unregistered = torch.from_dlpack(plain.array("i4"))
    pageable = torch.from_numpy(words.view("i4").copy())
    there = torch.zeros(size // 4, dtype=torch.int32, device="cuda")
    back = torch.zeros(size // 4, dtype=torch.int32, device="cuda")
    back.copy_(pageable)
    assert (
        ours.is_pinned() and pinned.is_pinned() and not pageable.is_pinned() and not unregistered.is_pinned()
    )

    def to_device(host: torch.Tensor) -> float:
        there.zero_()
        seconds = timed(lambda: there.copy_(host, non_blocking=True))
        assert torch.equal(there, back), "the device has other bytes"
        return seconds

    def from_device(host: torch.Tensor) -> float:
        host.zero_()
        seconds = timed(lambda: host.copy_(back, non_blocking=True))
        assert (host.numpy().view("u4") == words).all(), "the host has other bytes"
        return seconds

    def by_copy() -> float:
        there.zero_()
        seconds = timed(lambda: cuda.copy(OfTorch(there), region))
        assert torch.equal(there, back), "the device has other bytes"
        return seconds

    def in_place() -> float:
        with cuda.DeviceView(region.array("u4"), "in", strict=True) as view:
            mapped = on_device(view, "u4", size // 4)
            found: list[int] = []
            seconds = timed(lambda: found.append(add_up(mapped)))
        assert found == [int(words.sum(dtype="u8"))], "the kernel read other bytes"
        return seconds

    def close() -> None:
        nonlocal ours, unregistered
        ours = unregistered = None  # type: ignore[assignment]
        registration.__exit__(None, None, None)
        region.__exit__(None, None, None)
        plain.__exit__(None, None, None)

    rows = [
        Row("region to device", lambda: to_device(ours)),
        Row("torch pinned to device", lambda: to_device(pinned)),
        Row("pageable to device", lambda: to_device(pageable)),
        Row("region, not registered, to device", lambda: to_device(unregistered)),
        Row("region from device", lambda: from_device(ours)),
        Row("torch pinned from device", lambda: from_device(pinned)),
        Row("pageable from device", lambda: from_device(pageable)),
        Row("region, not registered, from device", lambda: from_device(unregistered)),
        Row("cuda.copy() to device", by_copy),
        Row("kernel reads the region in place", in_place),
    ]
    bars = [
        Bar("region to device", "torch pinned to device", 1 / 0.99),
        Bar("region from device", "torch pinned from device", 1 / 0.99),
        Bar("region to device", "pageable to device", 1 / 7.5),
        Bar("region from device", "pageable from device", 1 / 7.5),
        Bar("region to device", "region, not registered, to device", 1 / 7.5),
        Bar("region from device", "region, not registered, from device", 1 / 7.5),
        Bar("cuda.copy() to device", "torch pinned to device", 1 / 0.99),
        Bar("kernel reads the region in place", "region to device", 1 / 0.92),
    ]
    return Question("transfers", f"a copy of {size >> 20} MiB", "s", rows, bars, 3, close)
