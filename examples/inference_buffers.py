"""One buffer a binding, shared by processor and device: filled, inferred and read where it is, with no copy.

On an embedded GPU both share the memory itself; elsewhere the device reads it over the link.
"""

from importlib.util import find_spec

import numpy
from numpy.typing import NDArray

from zerosys import SharedRegion, cuda

Array = NDArray[numpy.float32]
BINDINGS = {"image": ("f4", (3, 32, 32)), "scores": ("f4", (10,))}
WEIGHTS = numpy.random.default_rng(1).normal(0, 1, (3 * 32 * 32, 10)).astype("f4")


def infer(image: Array, scores: Array, weights: Array) -> None:
    """A model of one layer; the same line for numpy and for CuPy, which writes into the mapped buffer."""
    scores[:] = image.reshape(-1) @ weights


def on_device(arrays: dict[str, Array]) -> str:
    import cupy

    weights = cupy.asarray(WEIGHTS)
    with cuda.expect_no_staging():
        with cuda.DeviceView(arrays["image"], "in", strict=True) as image:
            with cuda.DeviceView(arrays["scores"], "out", strict=True) as scores:
                infer(cupy.asarray(image), cupy.asarray(scores), weights)
    return f"in place on cuda:0, {cuda.memory_model().kind} memory"


def main() -> None:
    gpu = bool(cuda.memory_model()) and find_spec("cupy") is not None
    regions = {name: SharedRegion.create(4 * int(numpy.prod(shape))) for name, (_, shape) in BINDINGS.items()}
    arrays = {name: regions[name].array(*BINDINGS[name]) for name in BINDINGS}
    for frame in range(3):
        arrays["image"][:] = numpy.random.default_rng(frame).random(arrays["image"].shape, "f4")
        if gpu:
            with cuda.pinned(*regions.values(), budget="1MiB", device=0):
                told = on_device(arrays)
        else:
            infer(arrays["image"], arrays["scores"], WEIGHTS)
            told = "by the processor, no device"
        wanted = arrays["image"].reshape(-1) @ WEIGHTS
        assert numpy.allclose(arrays["scores"], wanted, rtol=1e-3, atol=1e-3)
        print(f"frame {frame}: class {int(arrays['scores'].argmax())}, {told}")
    if gpu:
        cuda.release_pinned()


if __name__ == "__main__":
    main()
