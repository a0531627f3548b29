"""Which GPU ``cuda:N`` is: CUDA_VISIBLE_DEVICES read as the driver reads it."""

from __future__ import annotations

from zerosys.record import Record

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Gpu(Record):
    """A GPU by its PCI address (``0000:3b:00.0``), UUID (``GPU-...``) and model, as far as they are told."""

    address: str
    uuid: str = ""
    model: str = ""


def visible(setting: str | None, gpus: Sequence[Gpu], parent_of: Callable[[str], str | None]) -> list[Gpu]:
    """The GPUs that CUDA counts, in its order, where CUDA_VISIBLE_DEVICES is *setting* (None: not set).

    *gpus* are all there are, in CUDA's order without it; *parent_of* gives the PCI address of
    a MIG device by its UUID. An entry that means nothing ends the list, as it does for CUDA.
    """
    if setting is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for word in setting.split(","):
        gpu = _meant(word.strip(), gpus, parent_of)
        if gpu is None:
            break
        chosen.append(gpu)
    return chosen


def _meant(word: str, gpus: Sequence[Gpu], parent_of: Callable[[str], str | None]) -> Gpu | None:
    if word.isascii() and word.isdigit():
        return gpus[int(word)] if int(word) < len(gpus) else None
    return by_uuid(word, gpus, parent_of)


def by_uuid(word: str, gpus: Sequence[Gpu], parent_of: Callable[[str], str | None]) -> Gpu | None:
    """The GPU of a UUID, of the beginning of one that no other has, or that a MIG device is a part of."""
    if word.startswith("MIG-GPU-"):  # the older form names its GPU: MIG-GPU-UUID/instance/instance
        word = word.removeprefix("MIG-").partition("/")[0]
    if word.startswith("MIG-"):
        address = parent_of(word)
        return next((gpu for gpu in gpus if gpu.address == address), None)
    if not word.startswith("GPU-"):
        return None
    found = [gpu for gpu in gpus if gpu.uuid.lower().startswith(word.lower())]
    return found[0] if len(found) == 1 else None
