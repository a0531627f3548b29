"""copy(): between any two kinds of memory, with the path told."""

import cuda_rig
import numpy
import pytest
from memory import PAGE
from needs import need

from zerosys import SharedRegion, cuda
from zerosys.cuda import backend

SIZE = 8 * PAGE


class There:
    def __init__(self, pointer):
        self.__cuda_array_interface__ = {
            "shape": (SIZE,), "typestr": "|u1", "data": (pointer, False), "strides": None, "version": 3,
        }  # fmt: skip


def test_any_memory_to_any_other(gpu):
    words = numpy.random.default_rng(3).integers(0, 256, SIZE, "u1")
    with SharedRegion.create(SIZE) as region, cuda.register(region), gpu.memory(SIZE) as a:
        with gpu.memory(SIZE) as b:
            managed = gpu.managed(SIZE)
            back = numpy.zeros(SIZE, "u1")
            steps = [
                (region, words, "host to registered"),
                (There(a), region, "registered to cuda:0"),
                (There(b), There(a), "cuda:0 to cuda:0"),
                (There(managed), There(b), "cuda:0 to managed"),
                (back, There(managed), "managed to host"),
            ]
            for target, source, path in steps:
                moved = cuda.copy(target, source)
                assert (moved, moved.path) == (SIZE, path)
            assert (back == words).all()


def test_nothing_is_nothing(gpu):
    moved = cuda.copy(bytearray(), b"")
    assert (moved, moved.path) == (0, "nothing")


@pytest.mark.parametrize("size", [1, PAGE, (40 << 20) + 7])
def test_one_device_to_another(fresh_gpu, size):
    count = backend.load().device_count()
    need("two-gpus", None if count > 1 else f"there is {count} device")
    assert cuda_rig.check_two_devices(size).startswith("cuda:0 to cuda:1, ")


def test_one_device_to_another_through_slots(fresh_gpu, monkeypatch):
    """As on a machine whose devices cannot reach each other."""
    count = backend.load().device_count()
    need("two-gpus", None if count > 1 else f"there is {count} device")
    monkeypatch.setattr(fresh_gpu.watched, "can_access_peer", lambda *_: False, raising=False)
    assert cuda_rig.check_two_devices((40 << 20) + 7, "host slot")
