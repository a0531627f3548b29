"""CPython's own tests of SharedMemory and ShareableList pass with ours in their place, in every child too."""

import importlib.util
import os
import subprocess
import venv
from pathlib import Path

import pytest
from needs import need

TREE = Path(__file__).resolve().parent.parent

# Read by every interpreter of the environment below, however it is started (-E and -I too).
REPLACE = """
from multiprocessing import shared_memory
from zerosys import shared_memory as ours

shared_memory.SharedMemory, shared_memory.ShareableList = ours.SharedMemory, ours.ShareableList
"""

RUN = """
import os, sys, unittest
from multiprocessing import shared_memory
import zerosys.shared_memory
import test._test_multiprocessing as suite

assert shared_memory.SharedMemory is zerosys.shared_memory.SharedMemory
suite.install_tests_in_module_dict(globals(), sys.argv[1])

# These want the tracker's faults. The first kills the creator and wants its segment to go with it, and a
# complaint on stderr; the second wants a reader that ends to take the segment from everybody (FAULTS M1);
# in the suite's own TestResourceTracker, the case of shared memory is the first one again.
FAULTS = ("test_shared_memory_cleaned_after_process_termination", "test_shared_memory_tracking")

class Counting(unittest.TextTestResult):
    succeeded = 0  # testsRun counts skipped tests in one Python and not in the next

    def addSuccess(self, test):
        self.succeeded += 1
        super().addSuccess(test)

if __name__ == "__main__":
    cases = unittest.defaultTestLoader.loadTestsFromTestCase(WithProcessesTestSharedMemory)
    tests = unittest.TestSuite(test for test in cases if not test.id().endswith(FAULTS))
    done = unittest.TextTestRunner(stream=sys.stderr, resultclass=Counting).run(tests)
    print(os.getpid(), done.succeeded, len(done.skipped), done.wasSuccessful())
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter, with environment, for which SharedMemory is ours."""
    absent = importlib.util.find_spec("test._test_multiprocessing") is None
    need("cpython-tests", "this Python has no test package" if absent else None)
    folder = tmp_path_factory.mktemp("suite")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "zerosys.pth").write_text(f"{TREE}\n")
    (site / "sitecustomize.py").write_text(REPLACE)
    return folder / "bin" / "python"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_installed_tests_pass(python, method, tmp_path):
    # A file and not -c: a spawned child imports the main module again.
    script = tmp_path / "run.py"
    script.write_text(RUN)
    child = subprocess.run(
        [python, script, method], capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    process, succeeded, skipped, passed = child.stdout.split()
    assert passed == "True", child.stderr
    assert int(succeeded) >= 12 and skipped == "0"
    assert "leak" not in child.stderr
    assert not [name for name in os.listdir("/dev/shm") if name.endswith(process)]


def test_ours_is_there_even_in_an_isolated_child(python):
    code = "from multiprocessing.shared_memory import SharedMemory as S; print(S.__module__)"
    for option in ("-E", "-I"):
        done = subprocess.run([python, option, "-c", code], capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("zerosys.shared_memory\n", "")
