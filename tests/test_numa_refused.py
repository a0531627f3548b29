"""Kernels that refuse NUMA calls, as containers do: nothing printed, a named error each (FAULTS N1, N2)."""

import ctypes
import errno

import pytest
from seccomp import POLICY_CALLS, Refuse, refused

PRELUDE = """
import errno, mmap, os, warnings
from zerosys import _numa
from zerosys.affinity import run_on
from zerosys.errors import PlacementError, PlacementWarning
from zerosys.policy import Bind, Default, memory_policy, policy_of
from zerosys.moving import move_to
from zerosys.whereabouts import placement
memory = mmap.mmap(-1, 4 * mmap.PAGESIZE)

def refusal(call, *args, **options):
    try:
        call(*args, **options)
    except OSError as error:
        return error
    raise AssertionError(f"{call} was not refused")
"""


def run(number, code, calls=POLICY_CALLS):
    done = refused([Refuse(call, number) for call in calls], PRELUDE + code)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_importing_and_asking_prints_nothing(number):
    code = """
from zerosys.machine import topology
assert topology().nodes
print(_numa.available())
for call, args in ((_numa.run_on_node_mask, [[0]]), (_numa.run_on_node, [0]), (_numa.node_of_cpu, [0]),
                   (_numa.distance, [0, 0]), (_numa.node_size, [0]), (_numa.max_node, [])):
    error = refusal(call, *args)
    assert error.errno == errno.ENOSYS and "filter refuses" in str(error), error
"""
    assert run(number, code) == "False\n"


def test_a_capability_is_the_remedy_only_for_calls_that_runtimes_open_to_it():
    """Docker's profile opens four calls to CAP_SYS_NICE, and neither move_pages nor migrate_pages."""
    code = """
from zerosys.abilities import capabilities
for told in (refusal(Bind(0).apply, memory), refusal(placement, memory)):
    print(str(told).count("add CAP_SYS_NICE"), str(told).count("CAP_SYS_NICE alone does not open it"))
found = capabilities()
print(*("add CAP_SYS_NICE" in found[name].remedy for name in ("mbind", "page lookup", "migrate_pages")))
"""
    assert run(errno.EPERM, code, calls=("mbind", "move_pages", "migrate_pages")) == (
        "1 0\n0 1\nTrue False False\n"
    )


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_each_refused_call_is_a_placement_error_with_the_checked_cause(number):
    code = """
def entered():
    with memory_policy(Bind(0)):
        raise AssertionError
for call, args in ((Bind(0).apply, [memory]), (Default().apply, [memory]), (policy_of, [memory]),
                   (placement, [memory]), (move_to, [memory, 0]), (entered, [])):
    error = refusal(call, *args)
    assert type(error) is PlacementError and "seccomp filter" in str(error), error
    print(error.errno, str(error).partition("; ")[0].partition("] ")[2].partition(":")[0])
"""
    # The nodes that are allowed are asked for first.
    calls = ["get_mempolicy", "mbind", "get_mempolicy", "move_pages", "get_mempolicy", "get_mempolicy"]
    assert run(number, code) == "".join(f"{number} {call}\n" for call in calls)


def test_without_strict_it_goes_on_unplaced_with_one_warning():
    code = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert Bind(0).apply(memory, strict=False) == Default()
    with memory_policy(Bind(0), strict=False) as policy:
        assert policy == Default()
print([(type(w.message) is PlacementWarning, "unplaced" in str(w.message), w.filename) for w in caught])
"""
    assert run(errno.EPERM, code) == f"{[(True, True, '<string>')] * 2}\n"


@pytest.mark.parametrize(
    "call, code",
    [
        ("mbind", "Bind(0).apply, memory"),
        ("get_mempolicy", "Bind(0).apply, memory"),
        ("move_pages", "placement, memory"),
        ("move_pages", "move_to, memory, 0"),
        ("get_mempolicy", "move_to, memory, 0"),
        ("set_mempolicy", "memory_policy(Bind(0)).__enter__"),
        ("sched_setaffinity", "run_on(0).__enter__"),
        ("sched_setaffinity", "run_on(cpus='all').__enter__"),
    ],
)
def test_the_call_that_was_refused_is_named(call, code):
    told = f"type(error).__name__, str(error).split()[2], 'allow {call}' in str(error)"
    code = f"error = refusal({code}); print({told})"
    assert run(errno.EPERM, code, [call]) == f"PlacementError {call}: True\n"


@pytest.mark.parametrize(
    "call, block",
    [
        ("set_mempolicy", "memory_policy(Bind(0), strict=False)"),
        ("sched_setaffinity", "run_on(0, strict=False)"),
    ],
)
def test_a_block_whose_call_is_refused_ends_as_it_began(call, block):
    code = f"""
before = _numa.get_mempolicy(), os.sched_getaffinity(0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with {block}:
        pass
assert (_numa.get_mempolicy(), os.sched_getaffinity(0)) == before
print(*(type(one.message).__name__ for one in caught))
"""
    assert run(errno.EPERM, code, [call]) == "PlacementWarning\n"


def test_where_mincore_is_refused_what_it_would_tell_is_unknown():
    code = """
fd = os.memfd_create("x")
os.ftruncate(fd, 4 * mmap.PAGESIZE)
os.pwrite(fd, b"there", 0)
with mmap.mmap(fd, 4 * mmap.PAGESIZE) as shared:
    where = move_to(shared, 0)
    print(where.pages, where.absent, where.unmapped, where.unknown)
"""
    assert run(errno.EPERM, code, ["mincore"]) == "4 0 0 4\n"


def test_home_node_on_an_older_kernel_is_enosys():
    code = "print(refusal(_numa.set_mempolicy_home_node, 0, 0, 0).errno)"
    assert run(errno.ENOSYS, code, ["set_mempolicy_home_node"]) == f"{errno.ENOSYS}\n"


def test_mode_that_this_kernel_lacks_names_the_kernel_and_the_substitute():
    code = """
from zerosys.errors import Unsupported
from zerosys.policy import PreferredMany, WeightedInterleave
for policy in PreferredMany(0), WeightedInterleave(0):
    error = refusal(policy.apply, memory)
    assert type(error) is Unsupported and "needs Linux" in str(error) and ": use " in str(error), error
"""
    run(errno.EINVAL, code, ["mbind"])


# Not sched_getaffinity: a libnuma that is refused that one speaks while it is loaded.
@pytest.mark.parametrize("calls", [["sched_setaffinity"], ["set_mempolicy"], POLICY_CALLS])
def test_libnuma_is_never_led_to_print_or_exit(calls):
    """Whether it would find our numa_warn and numa_error first is the distribution's choice (-Bsymbolic)."""
    code = """
import ctypes
libnuma = next(line.split()[-1] for line in open("/proc/self/maps") if "libnuma" in line)
library = ctypes.CDLL(libnuma)
for name in "numa_exit_on_error", "numa_exit_on_warn":
    ctypes.c_int.in_dll(library, name).value = 1
asked = 0
for call in _numa.run_on_node, _numa.run_on_node_mask, _numa.node_of_cpu, _numa.node_size, _numa.distance:
    for number in 0, 1, 63, 900, 1023, 1024, 5000, 2**31 - 1, 2**40, -1:
        args = {_numa.run_on_node_mask: [[number]], _numa.distance: [0, number]}.get(call, [number])
        try:
            call(*args)
        except (OSError, ValueError):
            pass
        asked += 1
print(asked)
"""
    assert run(errno.EPERM, code, calls) == "50\n"


def test_our_own_voices_are_there_to_be_found_first():
    from zerosys import _numa

    library = ctypes.CDLL(_numa.__file__)
    assert library.numa_warn and library.numa_error
