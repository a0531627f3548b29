"""What other libraries make of registered memory: each on the real device, numpy everywhere."""

import importlib.util

import cuda_rig
import needs
import numpy
import pytest
from memory import PAGE

from zerosys import SharedRegion, cuda

SIZE = 256 * PAGE


@pytest.fixture
def region():
    with SharedRegion.create(SIZE, pages="base") as made:
        made.array("u4")[:] = numpy.arange(SIZE // 4)
        yield made


def library(name):
    """The module *name*, on a machine with a device."""
    needs.need("gpu", cuda_rig.device_refusal())
    found = importlib.util.find_spec(name)
    needs.need(name, None if found else f"{name} is not installed")
    return importlib.import_module(name)


# -- DLPack, with or without a device ----------------------------------------------------------


def test_numpy_takes_the_region_and_the_registration(gpu, region):
    with cuda.register(region) as made:
        for lender in (region, made):
            array = numpy.from_dlpack(lender)
            assert array.ctypes.data == region.address and array.shape == (SIZE,)
            del array
    assert region.views == 0


def test_a_capsule_is_a_lease_on_the_region(gpu, region):
    with cuda.register(region) as made:
        capsule = made.__dlpack__(max_version=(1, 0))
    with pytest.raises(BufferError):
        region.close()
    assert "dltensor_versioned" in str(capsule)
    del capsule
    assert region.views == 0


def test_the_region_answers_cuda_host_when_asked_and_registered(gpu, region):
    assert region.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="register"):
        region.__dlpack__(dl_device=(3, 0))
    with cuda.register(region) as made:
        assert made.__dlpack_device__() == (3, 0)
        region.__dlpack__(dl_device=(3, 0))
        made.__dlpack__(dl_device=(1, 0))
        with pytest.raises(BufferError):
            region.__dlpack__(dl_device=(3, 0), copy=True)
        with pytest.raises(BufferError):
            made.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="closed"):
        made.__dlpack__()


def test_read_only_memory_needs_a_consumer_that_can_be_told(gpu, region):
    with SharedRegion.attach(region.fileno(), read_only=True) as reader, cuda.register(reader) as made:
        with pytest.raises(BufferError, match="max_version"):
            made.__dlpack__()
        made.__dlpack__(max_version=(1, 1))
        array = numpy.from_dlpack(made)
        assert not array.flags.writeable
        del array


# -- on the device -----------------------------------------------------------------------------


def test_torch_shares_it_and_finds_it_pinned(gpu, region):
    torch = library("torch")
    torch.zeros(1, device="cuda")  # until torch has used the device, it calls nothing pinned
    tensor = torch.from_dlpack(region)
    assert not tensor.is_pinned()
    with cuda.register(region, torch.device("cuda:0")):
        tensor = torch.from_dlpack(region)
        typed = torch.from_dlpack(region.array("i4"))
        assert tensor.is_pinned() and typed.is_pinned() and tensor.data_ptr() == region.address
        assert int(typed.to("cuda", non_blocking=True).sum()) == sum(range(SIZE // 4))
        typed[5] = 55
        assert region.array("i4")[5] == 55
        del tensor, typed


def test_torch_reads_and_writes_the_mapped_bytes(gpu, region):
    torch = library("torch")
    with cuda.register(region) as made:
        mapped = torch.as_tensor(made, device="cuda")
        assert mapped.is_cuda and mapped.data_ptr() == made.device_pointer()
        mapped.view(torch.int32).add_(1)
        torch.cuda.synchronize()
        assert (region.array("u4") == numpy.arange(SIZE // 4) + 1).all()
        del mapped


def test_torch_tensors_on_the_cpu_are_registered_too(gpu):
    torch = library("torch")
    torch.zeros(1, device="cuda")
    tensor = torch.ones(SIZE, dtype=torch.uint8)
    assert not tensor.is_pinned()
    with cuda.register(tensor):
        assert tensor.is_pinned()
    assert not tensor.is_pinned()


def test_torch_streams_and_events_are_waited_for(gpu, region):
    torch = library("torch")
    with cuda.HostPool() as pool, torch.cuda.stream(torch.cuda.Stream()):
        stream = torch.cuda.current_stream()
        block = pool.acquire(SIZE)
        there = torch.from_dlpack(block.array("u1")).to("cuda", non_blocking=True)
        event = stream.record_event()
        assert there.is_cuda
        stream.synchronize()
        fence = cuda.Fence(event)
        fence.wait(5)
        block.release(after=stream)
        stream.synchronize()
        pool.acquire(SIZE).release()
        assert pool.stats().misses == 1


def test_a_cupy_kernel_works_on_the_mapped_pointer(gpu, region):
    cupy = library("cupy")
    kernel = cupy.ElementwiseKernel("", "uint32 x", "x = x * 3 + i", "scale")
    with cuda.register(region), cuda.expect_no_staging():
        array = region.array("u4")
        with cuda.DeviceView(array, "inout", cupy.cuda.get_current_stream()) as view:
            there = cupy.ndarray(view.nbytes // 4, "u4", cupy.cuda.MemoryPointer(
                cupy.cuda.UnownedMemory(view.pointer, view.nbytes, view), 0))  # fmt: skip
            kernel(there)
        assert (array == numpy.arange(SIZE // 4, dtype="u4") * 3 + numpy.arange(SIZE // 4, dtype="u4")).all()
        del array, there


def test_cupy_takes_views_and_registrations_without_a_copy(gpu, region):
    cupy = library("cupy")
    with cuda.register(region) as made:
        for lender in (made, cuda.DeviceView(region, "in")):
            there = cupy.asarray(lender)
            assert there.data.ptr == made.device_pointer()
            assert int(there.view("u4").sum()) == sum(range(SIZE // 4))
            del there
            if isinstance(lender, cuda.DeviceView):
                lender.commit()
    array = cupy.arange(1000, dtype="f4")
    with cuda.DeviceView(array, "inout") as view:
        assert view.pointer == array.data.ptr and view.nbytes == 4000 and not view.staged


@pytest.mark.filterwarnings("ignore")
def test_a_numba_kernel_works_on_the_mapped_pointer(gpu, region, monkeypatch):
    numba_cuda = library("numba.cuda")
    # Its compiler asks for a name that numpy 2.5 has no more.
    monkeypatch.setattr(numpy, "row_stack", numpy.vstack, raising=False)

    @numba_cuda.jit
    def add(x, n):
        i = numba_cuda.grid(1)
        if i < x.size:
            x[i] += n

    with cuda.register(region), cuda.DeviceView(region.array("u4"), "inout") as view:
        assert not view.staged
        there = numba_cuda.as_cuda_array(view)
        add[(SIZE // 4 + 255) // 256, 256](there, 7)
        numba_cuda.synchronize()
        del there
    assert (region.array("u4") == numpy.arange(SIZE // 4) + 7).all()


def test_cuda_core_takes_the_mapped_pointer(gpu, region):
    core = library("cuda.core")
    device = core.Device(0)
    device.set_current()
    with cuda.register(region, device) as made:
        buffer = core.Buffer.from_handle(made.device_pointer(), made.size, owner=made)
        assert int(buffer.handle) == made.device_pointer() and buffer.size == SIZE
        stream = device.create_stream()
        with cuda.DeviceView(region, "in", stream):
            pass
        fence = cuda.Fence(stream.record())
        fence.wait(5)
        buffer.close()


def test_jax_takes_cuda_host_memory(gpu, region):
    jax = library("jax")
    with cuda.register(region) as made:
        array = jax.dlpack.from_dlpack(made)
        assert array.device.platform in ("gpu", "cuda") and array.shape == (SIZE,)
        assert (numpy.asarray(array) == region.array("u1")).all()
        # It stays in host memory: work on the device begins with a move there.
        memory = jax.sharding.SingleDeviceSharding(array.device, memory_kind="device")
        there = jax.device_put(array, memory)
        assert int(there.astype("uint32").sum()) == int(region.array("u1").sum(dtype="u8"))
        del array, there
    assert numpy.from_dlpack(region).shape == (SIZE,)
