"""CPython's own tests of os.splice and its neighbours pass with ours in their place."""

import importlib.util
import subprocess
import sys

import pytest
from needs import need

RUN = """
import os, sys, unittest, zerosys
for name in ("splice", "copy_file_range", "sendfile"):
    setattr(os, name, getattr(zerosys, name))
import test.test_os as suite

# Ours on purpose: the keywords are src and dst, as everywhere else in os, and a negative offset is a
# ValueError before the kernel sees it.
OURS = ("TestSendfile.test_keywords", "TestSendfile.test_invalid_offset")

def wanted(test):
    return sys.argv[1] in test.id() and not test.id().endswith(OURS)

def flat(tests):
    for test in tests:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else [test]

tests = [test for test in flat(unittest.defaultTestLoader.loadTestsFromModule(suite)) if wanted(test)]
class Counting(unittest.TextTestResult):
    succeeded = 0  # testsRun counts skipped tests in one Python and not in the next

    def addSuccess(self, test):
        self.succeeded += 1
        super().addSuccess(test)

runner = unittest.TextTestRunner(stream=sys.stderr, resultclass=Counting)
done = runner.run(unittest.TestSuite(tests))
print(done.succeeded, done.wasSuccessful())
"""


@pytest.mark.parametrize(
    ("what", "at_least"), [("test_splice", 3), ("test_copy_file_range", 2), ("TestSendfile", 3)]
)
def test_the_installed_tests_pass(what, at_least, tmp_path):
    absent = importlib.util.find_spec("test.test_os") is None
    need("cpython-tests", "this Python has no test package" if absent else None)
    child = subprocess.run(
        [sys.executable, "-c", RUN, what], capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    ran, passed = child.stdout.split()
    assert passed == "True", child.stderr
    assert int(ran) >= at_least
