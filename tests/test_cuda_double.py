"""Devices that are not on this machine: small budgets, ones that cannot register, several, coherent ones."""

import os
import subprocess
import sys
from pathlib import Path

import cuda_rig
import pytest
from memory import PAGE

from zerosys import SharedRegion, cuda
from zerosys.errors import NotRegisterable, Unsupported

SIZE = 16 * PAGE
TESTS = Path(__file__).resolve().parent


@pytest.fixture
def gpu():
    rig = cuda_rig.DoubleRig()
    rig.make_current()
    yield rig
    cuda_rig.remove()


def test_a_budget_of_768_mib_is_found_out_and_not_guessed(gpu):
    """As under WSL 2. Populated or not, the double pins nothing: the region costs no memory here."""
    with SharedRegion.create("2GiB", pages="base", populate=False) as region:
        with pytest.raises(NotRegisterable, match="2 GiB could not be pinned") as refused:
            cuda.register(region)
        assert refused.value.code == 2 and region.pinned == 0
        with cuda.register(region, strict=False) as made:
            assert made.pinned == 0 and made.refusal.code == 2
        assert gpu.peek() == 0 and region.views == 0
    with SharedRegion.create("512MiB", pages="base", populate=False) as region:
        with cuda.register(region):
            assert region.pinned == 512 << 20


def test_a_device_that_cannot_register_is_not_called(gpu):
    gpu.double.attributes["HOST_REGISTER_SUPPORTED"] = 0
    with SharedRegion.create(SIZE) as region:
        with pytest.raises(NotRegisterable, match="cannot register memory at all: pass it to DeviceView"):
            cuda.register(region)
        assert gpu.watched.calls["host_register"] == 0
        with cuda.DeviceView(region, "out") as view:
            assert view.staged
            gpu.fill(view.pointer, 1, SIZE)
        assert (region.array("u1") == 1).all()


def test_a_device_that_cannot_register_for_reading(gpu):
    gpu.double.attributes["READ_ONLY_HOST_REGISTER_SUPPORTED"] = 0
    with SharedRegion.create(SIZE) as region:
        with SharedRegion.attach(region.fileno(), read_only=True) as reader:
            with pytest.raises(NotRegisterable, match="for reading alone") as refused:
                cuda.register(reader)
            assert refused.value.code == 801
        with pytest.raises(NotRegisterable, match="for reading alone"):
            cuda.register(region, read_only=True)
    with cuda.register(b"x" * PAGE) as made:  # bytes lie in writable memory, and stay the reader's
        assert made.read_only
    assert gpu.watched.calls["host_register"] == 1


def test_the_memory_model_of_each_kind_of_device(gpu):
    assert cuda.memory_model() == cuda.MemoryModel(cuda.MemoryKind.DISCRETE, 0, coherent=False)
    gpu.double.attributes["PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"] = 1
    assert cuda.memory_model("cuda:0").coherent
    gpu.double.attributes |= {"INTEGRATED": 1, "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES": 0}
    model = cuda.memory_model()
    assert model.kind is cuda.MemoryKind.UNIFIED and model
    gpu.double.attributes["CAN_MAP_HOST_MEMORY"] = 0
    assert cuda.memory_model().kind is cuda.MemoryKind.DISCRETE
    with pytest.raises(ValueError, match="not 1"):
        cuda.memory_model(1)
    assert gpu.watched.calls["primary"] == 0


def test_where_registering_does_not_lock_the_pages_are_locked(gpu):
    gpu.double.attributes["PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"] = 1
    with SharedRegion.create(SIZE) as region:
        with cuda.register(region) as made:
            assert made.locked and region.locked
        assert not region.locked
        region.lock()
        with cuda.register(region) as made:
            assert not made.locked
        assert region.locked


def test_a_lock_that_is_refused_undoes_the_registration(gpu, monkeypatch):
    gpu.double.attributes["PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"] = 1
    monkeypatch.setattr(SharedRegion, "lock", refuse_lock)
    with SharedRegion.create(SIZE) as region:
        with pytest.raises(OSError, match="too much"):
            cuda.register(region)
        assert region.pinned == 0 and region.views == 0 and gpu.double.ranges == []


def refuse_lock(self, **words):
    raise OSError(12, "too much")


def test_several_devices_find_it_each(gpu):
    gpu.double.devices = 2
    with SharedRegion.create(SIZE) as region, cuda.register(region, 1) as made:
        assert made.device == 1
        assert made.device_pointer(0) == made.device_pointer("cuda:1") == region.address
        assert gpu.double.current().device == 0


def test_managed_memory_is_not_touched_while_the_stream_runs():
    """Without concurrentManagedAccess a touch of the processor's is fatal: the double makes it so."""
    script = """
import ctypes, cuda_rig
from zerosys import cuda
gpu = cuda_rig.DoubleRig()
gpu.double.attributes["CONCURRENT_MANAGED_ACCESS"] = 0
gpu.make_current()
pointer = gpu.managed(8192)
host = (ctypes.c_ubyte * 8192).from_address(pointer)
for fail in (False, True):
    try:
        with cuda.DeviceView(host, "inout") as view:
            assert not view.staged
            gpu.fill(view.pointer, 4 + fail, 8192)
            if fail:
                raise KeyError
    except KeyError:
        pass
    assert bytes(host) == bytes([4 + fail]) * 8192
gpu.fill(pointer, 9, 8192)
host[0]
"""
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": path}, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (-11, b"")  # the last line's touch, and no earlier one


def test_the_double_hangs_where_the_driver_does(gpu, tmp_path):
    from zerosys import Mapping

    (tmp_path / "file").write_bytes(bytes(PAGE))
    with open(tmp_path / "file", "rb") as file, Mapping(file, PAGE, protection=1, flags=2) as mapped:
        with pytest.raises(AssertionError, match="would hang"):
            gpu.register(mapped.address, PAGE)


def test_a_backend_that_is_absent_is_told_by_every_call(monkeypatch):
    cuda_rig.remove()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    refusal = cuda_rig.device_refusal()
    assert refusal
    calls = [lambda: cuda.register(bytearray(8), 0), lambda: cuda.HostPool(), lambda: cuda.DevicePool(0),
             lambda: cuda.DeviceView(bytearray(8)), lambda: cuda.copy(bytearray(8), bytes(8))]  # fmt: skip
    for call in calls:
        with pytest.raises(Unsupported) as refused:
            call()
        assert refused.value.strerror == refusal
    model = cuda.memory_model()
    assert not model and model.kind is cuda.MemoryKind.NO_DEVICE and model.reason == refusal


class Runtime:
    """cuda-bindings' runtime, as it answers on other machines."""

    def __init__(self, version, code, count):
        self.version, self.code, self.count = version, code, count

    def cudaDriverGetVersion(self):
        return 0, self.version

    def cudaGetDeviceCount(self):
        return self.code, self.count

    def cudaRuntimeGetVersion(self):
        return 0, 13050

    def cudaGetErrorString(self, code):
        return 0, b"system not yet initialized"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ((0, 35, None), "no NVIDIA driver is installed"),
        ((12040, 35, None), r"too old: it supports CUDA 12.4, .* made for 13.5: .*zerosys\[cuda12\]"),
        ((13000, 100, None), "sees no device"),
        ((13000, 0, 0), "sees no device: CUDA_VISIBLE_DEVICES is ''"),
        ((13000, 3, None), "start it by spawn"),
        ((13000, 802, None), r"system not yet initialized \(802\)"),
    ],
)
def test_the_reason_is_told_apart(monkeypatch, answers, words):
    from cuda import bindings

    monkeypatch.setattr(bindings, "runtime", Runtime(*answers), raising=False)
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", bindings.runtime)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    cuda_rig.remove()
    model = cuda.memory_model()
    assert model.kind is cuda.MemoryKind.NO_DEVICE
    with pytest.raises(Unsupported, match=words):
        cuda.register(bytearray(8), 0)


def test_a_missing_extra_is_named(monkeypatch):
    cuda_rig.remove()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert "pip install 'cuda-bindings==13.*'" in cuda.memory_model().reason


def test_importing_loads_no_cuda_and_no_numpy():
    script = """
import sys, zerosys.cuda
from zerosys.cuda import register, DeviceView, HostPool, memory_model
print([name for name in sys.modules if name.split('.')[0] in ('numpy', 'cuda', 'torch', 'psutil')])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=TESTS.parent, timeout=60
    )
    assert done.stdout == "[]\n", done.stderr


def test_the_example_runs_on_a_device_too(capsys):
    import runpy

    cuda_rig.DoubleRig()
    try:
        runpy.run_path(str(TESTS.parent / "examples/registered_memory.py"), run_name="__main__")
    finally:
        cuda_rig.remove()
    assert "1048576 bytes registered, read in place" in capsys.readouterr().out


def test_the_measurements_say_what_is_missing_where_there_is_no_device(tmp_path):
    command = [sys.executable, str(TESTS.parent / "benchmarks/cuda/run_all.py"), "--out", str(tmp_path)]
    done = subprocess.run(
        command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 3 and done.stderr.startswith("no device: "), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_name_that_the_seam_takes_of_cuda_bindings_is_there():
    """Only a device answers, but the names can be held against the library that is installed here."""
    import re

    from cuda.bindings import driver, runtime

    text = (TESTS.parent / "zerosys/cuda/backend.py").read_text()
    for owner, module in (("driver", driver), ("runtime", runtime)):
        names = set(re.findall(rf"\b(?:self\._)?{owner}\.(\w+)", text)) - {"py"}
        assert names and [name for name in names if not hasattr(module, name)] == []
    facts = re.findall(r'fact\("(\w+)"', text)
    assert [n for n in facts if not hasattr(driver.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{n}")] == []
    for name in cuda_rig.Double().attributes:
        assert hasattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")


@pytest.mark.parametrize("peers, way", [(True, "peer"), (False, "host slot")])
@pytest.mark.parametrize("size", [1, PAGE, (40 << 20) + 7])
def test_one_device_is_copied_to_another(peers, way, size):
    """By the way that the machine has; two real devices run the same in tests/cuda_contract."""
    rig = cuda_rig.DoubleRig()
    rig.install(cuda_rig.Double(devices=2))
    rig.double = rig.watched.inner
    rig.double.peers = peers
    try:
        cuda_rig.check_two_devices(size, way)
        calls = rig.watched.calls
        assert calls["stream_create"] == calls["stream_destroy"] and calls["alloc"] == calls["free"]
        assert calls["host_register"] == calls["host_unregister"]
    finally:
        cuda_rig.remove()
