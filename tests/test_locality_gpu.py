"""Which GPU cuda:N is, and its node, asked of doubles of NVIDIA's libraries, and of the real ones if any."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import nvidia_doubles
import pytest
from needs import need

ROOT = Path(__file__).parent.parent
TWO = "00000000:17:00.0 GPU-aa-1 H 0x1 0;00000000:65:00.0 GPU-bb-2 H 0x2 1"
MIXED = TWO.replace("GPU-bb-2 H", "GPU-bb-2 L")
ASK = """
import sys
from zerosys import node_of
for selector in sys.argv[1:] or ["cuda:0"]:
    try:
        found = node_of(selector)
        tried = [f"{source}={answer}" for source, answer in found.tried]
        print(found.node, found.source, found.device, *tried, sep="|")
    except OSError as refusal:
        print("error", refusal, sep="|")
"""


@pytest.fixture(scope="module")
def doubles(tmp_path_factory):
    return nvidia_doubles.build(tmp_path_factory.mktemp("nvidia"), "nvml", "cuda")


@pytest.fixture(scope="module")
def nvml_alone(tmp_path_factory):
    return nvidia_doubles.build(tmp_path_factory.mktemp("nvml"), "nvml")


@pytest.fixture(scope="module")
def driver_alone(tmp_path_factory):
    return nvidia_doubles.build(tmp_path_factory.mktemp("cuda"), "cuda")


def ask(folder, gpus, *selectors, code=ASK, **environment):
    asked = f"import sys; sys.argv[1:] = {list(selectors)}\n" + code
    done = nvidia_doubles.python(asked, folder, gpus, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("|") for line in done.stdout.splitlines()]


def test_nvml_counts_alike_gpus_and_tells_the_node_without_starting_cuda(doubles):
    first, second = ask(doubles, TWO, "cuda:0", "cuda:1")
    assert first[:3] == ["0", "NVML", "0000:17:00.0"] and second[:3] == ["1", "NVML", "0000:65:00.0"]
    assert first[3].startswith("CUDA driver=not asked") and first[4] == "NVML=node 0"


@pytest.mark.parametrize(
    "setting, addresses",
    [
        ("1", ["0000:65:00.0"]),
        ("GPU-bb,0", ["0000:65:00.0", "0000:17:00.0"]),
        ("MIG-1", ["0000:65:00.0"]),
        ("MIG-GPU-bb-2/7/0", ["0000:65:00.0"]),
        ("MIG-9", []),
    ],
)
def test_what_is_visible_is_what_is_counted(doubles, setting, addresses):
    answers = ask(doubles, TWO, "cuda:0", "cuda:1", CUDA_VISIBLE_DEVICES=setting)
    assert [answer[2] for answer in answers if answer[0] != "error"] == addresses
    assert all(f"CUDA_VISIBLE_DEVICES='{setting}'" in answer[1] for answer in answers if answer[0] == "error")


def test_gpus_of_different_models_are_counted_by_the_driver_in_another_process(doubles):
    [answer] = ask(doubles, MIXED, "cuda:0")
    assert answer == ["1", "CUDA driver", "0000:65:00.0", "CUDA driver=node 1"]
    [answer] = ask(doubles, MIXED, "cuda:0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert answer[2] == "0000:17:00.0"


def test_a_process_that_has_started_cuda_asks_its_own_driver(doubles):
    started = "import ctypes; assert ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL).cuInit(0) == 0\n"
    [answer] = ask(doubles, TWO, "cuda:0", code=started + ASK)
    assert answer == ["1", "CUDA driver", "0000:65:00.0", "CUDA driver=node 1"]


def real():
    """Why NVIDIA's libraries are not here, or None."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
        return None
    except OSError as missing:
        return str(missing)


def need_no_real_libraries():
    """What is not among the doubles is to be missing, or broken: a machine's own would be found instead."""
    need("no-gpu", None if real() else "NVIDIA's own libraries are here")


def test_without_nvml_the_driver_is_asked(driver_alone):
    need_no_real_libraries()
    [answer] = ask(driver_alone, TWO, "cuda:1")
    assert answer[:3] == ["0", "CUDA driver", "0000:17:00.0"]
    assert answer[3].startswith("NVML=libnvidia-ml.so.1: cannot open")


def test_a_driver_that_knows_no_node_leaves_it_to_the_next(doubles):
    [answer] = ask(doubles, MIXED.replace("0x2 1", "0x2 -"), "cuda:0")
    assert answer[:3] == ["1", "NVML", "0000:65:00.0"] and answer[3:] == [
        "CUDA driver=no node",
        "NVML=node 1",
    ]


def test_several_best_nodes_are_no_answer(doubles):
    [answer] = ask(doubles, TWO.replace("0x1", "0x3"), "gpu:GPU-aa")
    assert answer[:4] == ["None", "", "0000:17:00.0", "NVML=node 0-1"]
    assert answer[4].startswith("sysfs=pci:0000:17:00.0: there is no such device")


REGION = """
import sys, warnings
from zerosys import SharedRegion
try:
    with SharedRegion.create("1MiB", node=sys.argv[1], strict=sys.argv[2] == "strict") as region:
        print(region.policy, region.verify().ok, sep="|")
except OSError as refusal:
    print("error", type(refusal).__name__, refusal, sep="|")
"""


def test_a_region_lies_next_to_the_gpu_that_was_named(doubles):
    first = TWO.partition(";")[0]
    assert ask(doubles, first, "cuda:0", "strict", code=REGION) == [["Bind(0)", "True"]]


def test_a_gpu_without_a_node_is_an_error_or_an_unplaced_region(doubles):
    """FAULTS N9."""
    unknown = TWO.partition(";")[0].replace("0x1", "-")
    [answer] = ask(doubles, unknown, "cuda:0", "strict", code=REGION)
    assert answer[:2] == ["error", "PlacementError"] and "cuda:0 has no node" in answer[2]
    assert "name the node itself" in answer[2]
    effort = "import warnings; warnings.simplefilter('ignore')\n" + REGION
    assert ask(doubles, unknown, "cuda:0", "effort", code=effort) == [["None", "False"]]
    loud = "import warnings; warnings.simplefilter('error')\n" + REGION.replace("OSError", "UserWarning")
    [answer] = ask(doubles, unknown, "cuda:0", "effort", code=loud)
    assert answer[1] == "PlacementWarning" and answer[2].startswith("unplaced: cuda:0 has no node")


def test_a_library_that_refuses_is_a_tried_entry(nvml_alone):
    need_no_real_libraries()
    [answer] = ask(nvml_alone, TWO, "cuda:0", DOUBLE_NVML_REFUSES="1")
    assert answer[0] == "error" and "NVML: nvmlInit_v2 answered 9 (Driver Not Loaded)" in answer[1]
    assert "CUDA driver: libcuda.so.1: cannot open" in answer[1]


def test_a_driver_that_fails_is_a_tried_entry_and_nvml_answers(doubles):
    started = "import ctypes; assert ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL).cuInit(0) == 0\n"
    [answer] = ask(doubles, TWO, "cuda:0", code=started + ASK, DOUBLE_CUDA_REFUSES="1")
    assert answer[:3] == ["0", "NVML", "0000:17:00.0"]
    assert answer[3] == "CUDA driver=cuDeviceGetCount answered 999"


def test_a_library_of_another_name_is_a_tried_entry(nvml_alone, tmp_path):
    need_no_real_libraries()
    (tmp_path / "libcuda.so.1").symlink_to(nvml_alone / "libnvidia-ml.so.1")
    started = "import ctypes; ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL)\n"
    [answer] = ask(tmp_path, TWO, "cuda:0", code=started + ASK)
    assert answer[0] == "error" and "libcuda.so.1 here is no driver" in answer[1]


def test_a_library_of_another_kind_is_a_tried_entry(tmp_path):
    need_no_real_libraries()
    for name in nvidia_doubles.LIBRARIES.values():
        (tmp_path / name).write_bytes(b"no library\n" * 1000)
    [answer] = ask(tmp_path, TWO, "cuda:0")
    assert answer[0] == "error" and "NVML: " in answer[1] and "invalid ELF header" in answer[1]


def test_the_real_libraries_agree_with_each_other_and_with_sysfs():
    """The contract of the doubles, on a machine with GPUs."""
    need("gpu", real())
    started = "import ctypes; assert ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL).cuInit(0) == 0\n"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    answers = []
    for code in (ASK, started + ASK):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=kept
        )
        assert done.stderr == ""
        answers.append(done.stdout.split("|"))
    counted, driver = answers
    assert counted[2] == driver[2] and re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", driver[2])
    assert driver[3].startswith("CUDA driver=") and counted[3].startswith("CUDA driver=not asked")
    assert "None" in (counted[0], driver[0]) or counted[0] == driver[0]
