"""What the doctor finds about GPUs: the driver, whether memory can be registered, the node next to each."""

from __future__ import annotations

from zerosys.doctor.finding import Finding
from zerosys.errors import CudaError, PlacementError, Unsupported
from zerosys.locality import node_of


def check() -> list[Finding]:
    """The findings; where no device is, one that says why."""
    from zerosys.cuda import memory_model

    model = memory_model(0)
    if not model:
        return [Finding("GPU", "absent", model.reason, _remedy(model.reason))]
    from zerosys.cuda import backend

    found = []
    cuda = backend.load()
    for device in range(cuda.device_count()):
        found += [_registers(device), _node(device)]
    kind = f"{model.kind}{', coherent' if model.coherent else ''}"
    return [Finding("GPU", "ok", f"device 0 of {cuda.device_count()} is {kind}"), *found]


def _remedy(reason: str) -> str | None:
    return "pip install 'cuda-bindings==13.*'" if "cuda-bindings" in reason else None


def _registers(device: int) -> Finding:
    from zerosys.cuda import backend

    what = f"registering with cuda:{device}"
    try:
        able = backend.load().attribute("HOST_REGISTER_SUPPORTED", device)
        read_only = backend.load().attribute("READ_ONLY_HOST_REGISTER_SUPPORTED", device)
    except (CudaError, Unsupported) as refusal:
        return Finding(what, "limited", str(refusal), "update the driver")
    if not able:
        return Finding(
            what,
            "limited",
            "this platform cannot register memory that exists already: it is staged",
            "use zerosys.cuda.HostPool(write_combined=True), whose memory the driver makes itself",
        )
    return Finding(what, "ok", f"supported; read-only memory {'too' if read_only else 'not'}")


def _node(device: int) -> Finding:
    what = f"the node of cuda:{device}"
    try:
        affinity = node_of(f"cuda:{device}")
    except PlacementError as refusal:
        return Finding(what, "limited", str(refusal.strerror), "check CUDA_VISIBLE_DEVICES")
    if affinity.node is None:
        tried = ", ".join(f"{source}: {answer}" for source, answer in affinity.tried)
        return Finding(
            what, "limited", f"nothing here tells it ({tried})", f"name it: node=N, not 'cuda:{device}'"
        )
    return Finding(what, "ok", f"node {affinity.node}, as {affinity.source} says")
