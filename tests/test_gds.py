"""GPUDirect Storage, behind a cuFile that plays: what is asked of it, and that a refusal is asked once."""

import ctypes
import os
import sys
import types

import cuda_rig
import numpy
import pytest

from zerosys import cuda
from zerosys.cuda import gds, lanes, storage

SIZE = 3 * 4096 + 100


class Cufile(types.ModuleType):
    """cuda.bindings.cufile, whose disk and device are this process's files and memory."""

    class FileHandleType:
        OPAQUE_FD = 1

    class Descr:
        def __init__(self):
            self.type, self.handle, self.ptr = 0, types.SimpleNamespace(fd=-1), self

    def __init__(self, refuses=None):
        super().__init__("cuda.bindings.cufile")
        self.refuses, self.asked, self.open = refuses, 0, set()

    def driver_open(self):
        self.asked += 1
        if self.refuses == "driver":
            raise RuntimeError("no nvidia-fs")

    def driver_close(self):
        pass

    def handle_register(self, descriptor):
        self.asked += 1
        if self.refuses == "file":
            raise RuntimeError("this file system is not supported")
        assert descriptor.type == self.FileHandleType.OPAQUE_FD
        self.open.add(descriptor.handle.fd)
        return descriptor.handle.fd

    def handle_deregister(self, handle):
        self.open.remove(handle)

    def read(self, handle, address, size, offset, _):
        part = os.pread(os.open(f"/proc/self/fd/{handle}", os.O_RDONLY), min(size, 5000), offset)
        ctypes.memmove(address, part, len(part))
        return len(part)

    def write(self, handle, address, size, offset, _):
        return os.pwrite(
            os.open(f"/proc/self/fd/{handle}", os.O_RDWR), ctypes.string_at(address, size), offset
        )


@pytest.fixture
def cufile(monkeypatch, request):
    played = Cufile(getattr(request, "param", None))
    bindings = types.ModuleType("cuda.bindings")
    bindings.cufile = played
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setitem(sys.modules, "cuda.bindings.cufile", played)
    monkeypatch.setattr(gds, "_opened", False)
    monkeypatch.setattr(gds, "_refused", {})
    monkeypatch.setattr(gds.atexit, "register", lambda call: None)
    rig = cuda_rig.DoubleRig()
    rig.make_current()
    yield played
    storage.trim()
    lanes._pools.clear()
    cuda_rig.remove()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(numpy.random.default_rng(7).bytes(SIZE))
    return path


def test_disk_and_device_exchange_the_bytes_themselves(cufile, file):
    with cuda.DevicePool() as pool, pool.acquire(SIZE) as block:
        result = storage.read(file, block, offset=10)
        assert (result.path, result.bytes, result.staged) == ("cufile", SIZE - 10, 0)
        assert ctypes.string_at(block.pointer, SIZE - 10) == file.read_bytes()[10:]
        assert storage.write(file.with_name("copy"), block, count=SIZE - 10).path == "cufile"
    assert file.with_name("copy").read_bytes() == file.read_bytes()[10:]
    assert not cufile.open and cufile.asked == 3  # the driver once, each file once


@pytest.mark.parametrize("cufile", ["driver", "file"], indirect=True)
def test_what_cufile_refuses_is_asked_once_and_goes_by_slots(cufile, file):
    with cuda.DevicePool() as pool, pool.acquire(SIZE) as block:
        for _ in range(3):
            result = storage.read(file, block)
            assert result.path != "cufile" and result.staged == SIZE
    assert cufile.asked == (1 if cufile.refuses == "driver" else 2)
