"""SharedRegion: created whole or not at all, attached with care, given back without a signal."""

import ctypes
import errno
import gc
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from counts import nothing_left
from memory import PAGE
from seccomp import POLICY_CALLS, Refuse, refused

from zerosys import _memfd, _mmap, filling
from zerosys.errors import PlacementError, PlacementWarning, Unsupported
from zerosys.handle import Particulars, RegionHandle
from zerosys.policy import Bind, Preferred
from zerosys.region import SharedRegion


@pytest.fixture
def region():
    with SharedRegion.create(3 * PAGE + 5, pages="base") as made:
        yield made


# -- made -----------------------------------------------------------------------------------


def test_a_region_is_zeroed_populated_sealed_and_all_the_user_s(region):
    assert (region.size, region.mapped_size, len(memoryview(region))) == (
        3 * PAGE + 5,
        4 * PAGE,
        3 * PAGE + 5,
    )
    assert not any(memoryview(region))
    assert region.resident() == 4 * PAGE
    assert region.sealed and not region.read_only and not region.locked
    assert (region.backing.source, region.backing.pages, region.backing.page_size) == ("memfd", "base", PAGE)
    assert os.fstat(region.fileno()).st_size == 3 * PAGE + 5
    assert os.fstat(region.fileno()).st_mode & 0o777 == 0o600


def test_nobody_can_change_its_size(region):
    for size in (0, 100 * PAGE):
        with pytest.raises(PermissionError):
            os.ftruncate(region.fileno(), size)
        with pytest.raises(PermissionError, match="create another"):
            region.resize(size)


def test_mode_is_not_the_umask_s():
    before = os.umask(0o777)
    try:
        with SharedRegion.create(PAGE, mode=0o640) as region:
            assert os.fstat(region.fileno()).st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_without_populate_no_page_exists_and_asking_makes_none():
    with SharedRegion.create("1MiB", pages="base", populate=False, node=0) as region:
        for _ in range(2):
            assert region.placement().absent == (1 << 20) // PAGE
            assert not region.verify().ok
        assert region.resident() == 0
        memoryview(region)[0] = 1
        assert region.placement().absent == (1 << 20) // PAGE - 1


def test_a_bound_region_is_proved_to_lie_on_its_node():
    with SharedRegion.create("8MiB", pages="base", node=0) as region:
        report = region.verify()
        assert report.ok and bool(report) and "every page" in str(report)
        assert report.placement.nodes == {0: (8 << 20) // PAGE}
        assert region.policy == Bind(0)


def test_a_region_without_policy_proves_nothing(region):
    assert region.policy is None
    assert not region.verify().ok
    assert sum(region.placement().nodes.values()) == 4


@pytest.mark.parametrize(
    "spec", [{"node": 0}, {"node": "0"}, {"policy": Preferred(0)}, {"policy": Bind("all")}]
)
def test_each_way_to_name_a_node(spec):
    with SharedRegion.create(PAGE, **spec) as region:
        assert region.verify().ok


BAD = [
    ((0,), {}, ValueError, "size must be"),
    ((-1,), {}, ValueError, "size must be"),
    ((1.5,), {}, TypeError, "size must be an int"),
    ((True,), {}, TypeError, "size must be an int"),
    ((PAGE,), {"mode": "600"}, TypeError, "0o600"),
    ((PAGE,), {"name": b"x"}, TypeError, "name must be text"),
    ((PAGE,), {"policy": "bind"}, TypeError, "Bind"),
    ((2**50,), {}, OSError, "1 PiB asked"),
    ((2**63,), {}, ValueError, "9223372036854775808"),
    (("one page",), {}, ValueError, "64MiB"),
    ((PAGE,), {"pages": "4M"}, ValueError, "auto, base, thp, 2M, 1G"),
    ((PAGE,), {"lock": "yes"}, ValueError, "try"),
    ((PAGE,), {"node": 0, "policy": Bind(0)}, ValueError, "not both"),
    ((PAGE,), {"node": -1}, ValueError, "-1"),
    ((PAGE,), {"node": 1.5}, TypeError, "float"),
    ((PAGE,), {"node": "zero"}, ValueError, "zero"),
    ((PAGE,), {"pages": "2M", "populate": False}, ValueError, "base pages"),
    ((PAGE,), {"pages": "thp", "populate": False}, ValueError, "base pages"),
    ((PAGE,), {"lock": True, "populate": False}, ValueError, "base pages"),
    ((PAGE,), {"node": 900}, PlacementError, "900"),
    ((PAGE,), {"node": "0,900"}, PlacementError, "900"),
]


@pytest.mark.parametrize(("words", "named", "error", "text"), BAD)
def test_bad_input_is_named_and_leaves_nothing(words, named, error, text):
    with nothing_left(), pytest.raises(error, match=text):
        SharedRegion.create(*words, **named)


def test_more_than_the_machine_has_is_foreseen_and_leaves_nothing():
    with nothing_left(), pytest.raises(OSError, match="force=True") as refusal:
        SharedRegion.create("1TiB", pages="base")
    assert refusal.value.errno == errno.ENOMEM


def test_a_node_that_does_not_exist_is_only_a_warning_where_told():
    with (
        pytest.warns(PlacementWarning, match="900"),
        SharedRegion.create(PAGE, node="0,900", strict=False) as r,
    ):
        assert r.policy == Bind(0) and r.verify().ok


def test_a_pool_of_huge_pages_that_is_too_small_is_named_and_leaves_nothing():
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") as pool:
        free = int(pool.read())
    with nothing_left(), pytest.raises(OSError, match="2 MiB pages") as refusal:
        SharedRegion.create((free + 8) << 21, pages="2M")
    assert refusal.value.errno == errno.ENOMEM


def test_the_constructor_says_how_a_region_is_made():
    with nothing_left(), pytest.raises(TypeError, match=r"SharedRegion\.create"):
        SharedRegion(None, PAGE)


def test_thp_is_aligned_everywhere_and_tells_what_was_got():
    size = (5 << 20) + 3
    with SharedRegion.create(size, pages="thp") as region:
        assert region.address % (2 << 20) == 0 and region.mapped_size == 6 << 20
        assert region.backing.huge_bytes == 6 << 20
        with region.handle() as handle, SharedRegion.attach(handle) as other:
            assert other.address % (2 << 20) == 0 and other.size == size


# -- attached -------------------------------------------------------------------------------


def test_attaching_maps_the_same_bytes_and_every_page(region):
    with region.handle() as handle, SharedRegion.attach(handle) as other:
        memoryview(region)[3 * PAGE] = 7
        assert memoryview(other)[3 * PAGE] == 7
        assert other.size == region.size and other.address != region.address
        assert other.placement().unmapped == 0 and sum(other.placement().nodes.values()) == 4


def test_a_bare_descriptor_attaches_and_stays_the_caller_s(region):
    fd = os.dup(region.fileno())
    with SharedRegion.attach(fd) as other:
        assert other.size == region.size
    os.fstat(fd)
    os.close(fd)


def test_policy_travels_with_the_handle():
    with SharedRegion.create(PAGE, node=0) as region, region.handle() as handle:
        with SharedRegion.attach(handle) as other:
            assert other.policy == Bind(0) and other.verify().ok


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ({"pages": "1G"}, True),
        ({"pages": "\x1b[2J"}, True),
        ({"source": "/etc/passwd"}, True),
        ({"policy": {"mode": "bind", "nodes": "77"}}, True),
        ({"policy": {"mode": "bind", "nodes": ",".join(["0-65535"] * 1700)}}, False),
    ],
)
def test_what_a_forged_handle_says_is_held_against_its_descriptor(words, kept):
    with SharedRegion.create(PAGE, node=0, pages="base") as region:
        true = json.loads(region.particulars().to_json())
        forged = Particulars.from_json(json.dumps(true | words).encode())
        with nothing_left(), RegionHandle(os.dup(region.fileno()), forged) as handle:
            if kept:
                with SharedRegion.attach(handle) as other:
                    assert (other.backing, other.policy) == (region.backing, Bind(0))
            else:
                with pytest.raises(ValueError, match="1023"):
                    SharedRegion.attach(handle)


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ({"policy": 0}, TypeError, "nodes are for node="),
        ({"policy": "bind"}, TypeError, "nodes are for node="),
        ({"lock": 1}, ValueError, "lock must be"),
        ({"mode": 0o755}, ValueError, "memory is not executed"),
    ],
)
def test_words_that_look_right_are_not_taken_for_something_else(words, error, says):
    with nothing_left(), pytest.raises(error, match=says):
        SharedRegion.create(PAGE, **words)


def test_populating_ends_where_the_kernel_asks_to_try_again_for_ever():
    done = refused(
        [Refuse("madvise", errno.EAGAIN)],
        "from zerosys.region import SharedRegion\n"
        "for size in (4096, 64 << 20):\n"
        "    try: SharedRegion.create(size, pages='base')\n"
        "    except BlockingIOError as error: print(error.populated)",
    )
    assert (done.stdout, done.stderr) == ("0\n0\n", "")


def test_arrays_of_subarrays_and_shapes_in_arrays():
    with SharedRegion.create(PAGE, pages="base") as region:
        assert region.array(("f4", (2,))).shape == (PAGE // 8, 2)
        assert region.array(("f4", (2, 3)), (4, -1)).shape == (4, PAGE // 24 // 4, 2, 3)
        assert region.array("f4", np.array([2, 3])).shape == (2, 3)


def test_a_read_only_attachment_cannot_write(region):
    with region.handle() as handle, SharedRegion.attach(handle, read_only=True) as other:
        assert other.read_only and memoryview(other).readonly
        with pytest.raises(TypeError):
            memoryview(other)[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            other.array("u1")[0] = 1


def test_a_read_only_handle_is_a_real_guard(region):
    with region.handle(read_only=True) as handle:
        with nothing_left(), pytest.raises(PermissionError, match="read_only=True"):
            SharedRegion.attach(handle)
        with pytest.raises(PermissionError):
            _mmap.Mapping(handle, PAGE)
        with SharedRegion.attach(handle, read_only=True) as other:
            memoryview(region)[1] = 5
            assert memoryview(other)[1] == 5
            with pytest.raises(PermissionError):
                other.protect(_mmap.PROT_READ | _mmap.PROT_WRITE)


def test_sealed_against_writing_says_how_to_attach(region):
    _memfd.add_seals(region.fileno(), _memfd.F_SEAL_FUTURE_WRITE)
    with region.handle() as handle:
        with pytest.raises(PermissionError, match="read_only=True"):
            SharedRegion.attach(handle)
        SharedRegion.attach(handle, read_only=True).close()
    memoryview(region)[0] = 1  # what is mapped stays writable


def unsealed(size=PAGE):
    fd = _memfd.memfd_create("foreign")
    os.ftruncate(fd, size)
    return fd


def test_memory_that_a_peer_could_truncate_is_refused_unless_told():
    fd = unsealed()
    with nothing_left(), pytest.raises(ValueError, match="unsealed=True"):
        SharedRegion.attach(fd)
    with SharedRegion.attach(fd, unsealed=True) as region:
        assert not region.sealed
    os.close(fd)


def test_a_file_shorter_than_its_handle_is_refused():
    with SharedRegion.create(8 * PAGE, pages="base") as big, big.handle() as lie:
        with SharedRegion.create(PAGE, pages="base") as small:
            os.dup2(small.fileno(), lie.fileno())
        with nothing_left(), pytest.raises(ValueError, match="descriptor has"):
            SharedRegion.attach(lie)


def test_what_is_no_memory_is_refused(tmp_path):
    r, w = os.pipe()
    empty = unsealed(0)
    with nothing_left():
        strange = [
            (r, ValueError), (empty, ValueError), (1 << 20, OSError), ("no such name", FileNotFoundError),
            (-1, ValueError), (1 << 40, ValueError), (None, TypeError),
        ]  # fmt: skip
        for thing, error in strange:
            with pytest.raises(error):
                SharedRegion.attach(thing)
    for fd in (r, w, empty):
        os.close(fd)


# -- lent and given back --------------------------------------------------------------------


def test_arrays_are_views_aligned_and_checked():
    with SharedRegion.create(1 << 20, pages="base") as region:
        a = region.array("f4", (1024, -1))
        assert a.shape == (1024, 256) and a.flags.c_contiguous and a.flags.aligned and a.flags.writeable
        assert a.ctypes.data == region.address
        b = region.array(np.complex64, 10, offset=PAGE)
        b[:] = 1 + 2j
        assert a.reshape(-1)[PAGE // 4 : PAGE // 4 + 2].tolist() == [1.0, 2.0]
        assert region.array("u1").size == 1 << 20
        assert region.array("u1", 0).size == 0
        assert region.array([("x", "u2"), ("y", "f8")], 3).dtype.names == ("x", "y")
        for words, error in [
            (("f8", 2, 4), "multiple of 8"), (("u1", (1 << 20) + 1), "takes"), (("O", 1), "objects"),
            (("u1", (-1, -1)), "one -1"), (("u1", -2), "one -1"), (("u1", 1, 1 << 21), "offset"),
            (("S", 1), "0 bytes"),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=error):
                region.array(*words)
        del a, b


def dlpack(region):
    return np.from_dlpack(region)


BORROWERS = [
    memoryview, lambda r: np.frombuffer(r, "u1"), lambda r: (ctypes.c_char * 8).from_buffer(r), dlpack,
    lambda r: r.__dlpack__(), lambda r: r.array("f4", 4), lambda r: memoryview(r).obj,
]  # fmt: skip


@pytest.mark.parametrize("borrow", BORROWERS)
def test_close_under_a_view_is_refused_and_the_region_stays_usable(borrow):
    with nothing_left():
        region = SharedRegion.create(PAGE, pages="base")
        memoryview(region)[0] = 9
        view = borrow(region)
        with pytest.raises(BufferError, match="live view"):
            region.close()
        assert memoryview(region)[0] == 9
        region.handle().close()
        del view
        gc.collect()
        region.close()
        region.close()


def test_torch_keeps_a_lease():
    code = (
        "import torch\nfrom zerosys.region import SharedRegion\n"
        "r = SharedRegion.create(4096)\nt = torch.frombuffer(r, dtype=torch.uint8)\n"
        "t[3] = 7\nassert memoryview(r)[3] == 7\n"
        "try: r.close()\nexcept BufferError: print('refused')\ndel t\nr.close()\nprint('closed')\n"
    )
    try:
        import torch  # noqa: F401
    except ImportError:
        code = code.split("t = torch")[0].replace("import torch\n", "") + (
            "t = memoryview(r).obj  # all that torch keeps\n"
            "try: r.close()\nexcept BufferError: print('refused')\ndel t\nr.close()\nprint('closed')\n"
        )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout == "refused\nclosed\n", done.stderr


def test_an_array_that_kept_only_the_region_reads_zeros_after_close():
    region = SharedRegion.create(PAGE, pages="base")
    array = np.ndarray(PAGE, "u1", buffer=region)
    array[:] = 3
    region.close()
    assert not array.any()


def test_leaving_a_with_under_a_view_never_masks_and_frees_with_the_last_view():
    with nothing_left():
        with pytest.raises(KeyError, match="mine"), SharedRegion.create(PAGE, pages="base") as region:
            array = region.array("u1")
            raise KeyError("mine")
        array[:] = 1
        assert region.closed
        for use in (region.fileno, region.handle, region.placement, region.__enter__):
            with pytest.raises(ValueError, match="closed"):
                use()
        del array, region


def test_a_dropped_region_leaves_nothing_and_prints_nothing(capfd):
    with nothing_left():
        for _ in range(100):
            SharedRegion.create(PAGE)
    assert capfd.readouterr() == ("", "")


def test_advice_that_makes_touching_fatal_is_refused(region):
    for advice in (_mmap.MADV_DONTFORK, _mmap.MADV_HWPOISON, _mmap.MADV_GUARD_INSTALL, _mmap.MADV_REMOVE):
        with pytest.raises(ValueError, match="refused for a SharedRegion"):
            region.advise(advice)
    region.advise(_mmap.MADV_SEQUENTIAL)


# -- refusals -------------------------------------------------------------------------------


def run(code, rules=(), **options):
    done = refused(list(rules), "from zerosys.region import SharedRegion\n" + code, **options)
    assert done.returncode == 0, done.stderr
    return done


def test_a_container_that_refuses_policy_calls_is_named_and_best_effort_goes_on():
    rules = [Refuse(call, errno.EPERM) for call in POLICY_CALLS]
    code = """
import warnings, errno
from zerosys.errors import PlacementError, PlacementWarning
try:
    SharedRegion.create(4096, node=0)
except PlacementError as error:
    assert error.errno == errno.EPERM and "SYS_NICE" in str(error) and "seccomp" in str(error), error
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    region = SharedRegion.create(4096, node=0, strict=False)
assert [(w.category, w.filename) for w in seen] == [(PlacementWarning, "<string>")], seen
assert region.policy is None and not region.verify().ok
memoryview(region)[0] = 1
region.close()
with SharedRegion.create("4MiB") as plain:  # asks for no placement, so none is refused
    assert plain.resident() == 4 << 20
"""
    assert run(code, rules).stderr == ""


def test_a_kernel_without_numa_refuses_strict_placement_with_enosys():
    rules = [Refuse(call, errno.ENOSYS) for call in POLICY_CALLS]
    code = """
import errno
from zerosys.errors import PlacementError
try:
    SharedRegion.create(4096, node=0)
except PlacementError as error:
    assert error.errno == errno.ENOSYS, error
"""
    assert run(code, rules).stderr == ""


def test_without_memfd_an_unlinked_tmpfs_file_serves_and_says_so():
    code = """
import os
region = SharedRegion.create(10_000, pages="base", node=0)
assert region.backing.source == "tmpfs" and not region.sealed
assert region.verify().ok and os.fstat(region.fileno()).st_nlink == 0
with region.handle() as handle:
    try:
        SharedRegion.attach(handle)
    except ValueError as error:
        assert "unsealed=True" in str(error)
    with SharedRegion.attach(handle, unsealed=True) as other:
        memoryview(region)[9_999] = 3
        assert memoryview(other)[9_999] == 3 and other.backing.source == "tmpfs"
"""
    run(code, [Refuse("memfd_create", errno.ENOSYS)])


def test_a_full_tmpfs_is_enospc_before_any_byte_is_handed_out():
    code = """
import ctypes, errno, os, subprocess
ctypes.CDLL(None).unshare(0x20000)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", "/dev/shm"], check=True)
try:
    SharedRegion.create(1 << 20, pages="base")
except OSError as error:
    assert error.errno == errno.ENOSPC and "/dev/shm is full" in str(error), error
assert os.listdir("/dev/shm") == [] and os.statvfs("/dev/shm").f_bfree == 16
print("refused")
"""
    assert run(code, [Refuse("memfd_create", errno.ENOSYS)]).stdout == "refused\n"


def test_a_kernel_without_populate_touches_each_page():
    rules = [Refuse("madvise", errno.EINVAL, arg=2, equals=n) for n in (22, 23)]
    code = """
region = SharedRegion.create("20MiB", pages="base", node=0)
assert region.resident() == 20 << 20 and region.verify().ok
with region.handle() as handle, SharedRegion.attach(handle, read_only=True) as other:
    assert other.placement().unmapped == 0
"""
    run(code, rules)


def test_a_kernel_that_cannot_collapse_says_so():
    rules = [Refuse("madvise", errno.EINVAL, arg=2, equals=_mmap.MADV_COLLAPSE)]
    code = """
from zerosys.errors import Unsupported
try:
    SharedRegion.create("4MiB", pages="thp")
except Unsupported as error:
    assert "Linux 6.1" in str(error), error
    print("unsupported")
"""
    assert run(code, rules).stdout == "unsupported\n"


def test_a_huge_page_size_that_is_not_offered_lists_those_that_are(monkeypatch):
    monkeypatch.setattr("zerosys.backing.HUGE_PAGES", {"16G": 16 << 30})
    monkeypatch.setattr("zerosys.backing.PAGES", ("16G",))
    with nothing_left(), pytest.raises(Unsupported, match="2M"):
        SharedRegion.create(PAGE, pages="16G")


LOCKED = """
import os, resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, ({limit}, {limit}))
os.setgid(65534); os.setuid(65534)
try:
    SharedRegion.create(1 << 20, pages="base", lock=True)
except OSError as error:
    assert error.errno == {error} and "1 MiB" in str(error) and "{shown}" in str(error), error
    assert "CAP_IPC_LOCK" in str(error)
region = SharedRegion.create(1 << 20, pages="base", lock="try")
assert not region.locked and region.lock_refusal.errno == {error} and region.resident() == 1 << 20
"""


@pytest.mark.parametrize(
    ("limit", "error", "shown"), [(65536, errno.ENOMEM, "64 KiB"), (0, errno.EPERM, "0 bytes")]
)
def test_a_lock_beyond_the_limit_tells_both_numbers(limit, error, shown):
    run(LOCKED.format(limit=limit, error=error, shown=shown))


def test_a_locked_region_is_locked():
    with SharedRegion.create(PAGE, lock=True) as region:
        assert region.locked
        region.unlock()
        assert not region.locked


# -- signals and threads --------------------------------------------------------------------


def test_ctrl_c_ends_a_populate_within_a_second_and_leaves_nothing():
    code = """
import os, signal, threading
from counts import nothing_left
with nothing_left():
    thread = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    thread.start()
    try:
        SharedRegion.create("{size}", pages="base", force=True)
        print("whole")
    except KeyboardInterrupt as stop:
        print("stopped", 0 < stop.populated < {size})
    thread.join()
"""
    tests = os.path.dirname(__file__)
    done = run(
        code.format(size=8 << 30), env={**os.environ, "PYTHONPATH": f"{os.path.dirname(tests)}:{tests}"}
    )
    assert done.stdout == "stopped True\n"


def test_a_handler_that_returns_lets_the_populate_carry_on():
    hits = []
    before = signal.signal(signal.SIGPROF, lambda *_: hits.append(1))  # SIGALRM is the test runner's
    signal.setitimer(signal.ITIMER_PROF, 0.005, 0.005)
    try:
        with SharedRegion.create("256MiB", pages="base", node=0) as region:
            assert region.verify().ok
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert hits


def test_threads_create_and_close_at_once():
    errors = []

    def work():
        try:
            for _ in range(50):
                with SharedRegion.create(PAGE, node=0) as region:
                    region.array("u1")[:] = 1
        except BaseException as error:
            errors.append(error)

    with nothing_left():
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


def test_what_a_region_is_made_of_is_json():
    with SharedRegion.create(PAGE, node=0) as region, region.handle() as handle:
        assert json.loads(handle.particulars.to_json())["policy"] == {"mode": "bind", "nodes": "0"}


@pytest.fixture
def many_threads(monkeypatch):
    """Filling as it is on a machine of many CPUs."""
    monkeypatch.setattr(filling, "_WORTH_ALLOCATING", 1 << 20)
    monkeypatch.setattr(filling, "_ALLOCATE_FROM", 1)
    monkeypatch.setattr(filling, "_threads", lambda size, cpus: 4)


@pytest.mark.parametrize("pages", ["base", "thp"])
def test_filling_by_many_threads_makes_every_page_of_zeros_and_leaves_no_thread(many_threads, pages):
    with nothing_left():
        with SharedRegion.create("66MiB", pages=pages) as region:
            assert region.resident() == region.mapped_size
            assert not region.array("u8").any()
            if pages == "thp":
                assert region.backing.huge_bytes == region.mapped_size


def test_a_refused_allocation_is_left_to_populating(many_threads, monkeypatch):
    asked = []

    def refuse(*words):
        asked.append(words)
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with SharedRegion.create("66MiB", pages="base") as region:
        assert region.resident() == region.mapped_size
    assert [words[1:] for words in asked] == [(0, 64 << 20), (64 << 20, 2 << 20)]


def test_threads_that_cannot_gather_huge_pages_say_so_as_one_does(many_threads, monkeypatch):
    def refuse(self, advice, **words):
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(SharedRegion, "advise", refuse)
    with nothing_left(), pytest.raises(Unsupported, match="MADV_COLLAPSE"):
        SharedRegion.create("66MiB", pages="thp")


def test_where_no_thread_can_be_had_this_one_gathers_huge_pages(many_threads, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with SharedRegion.create("66MiB", pages="thp") as region:
        assert region.backing.huge_bytes == region.mapped_size
