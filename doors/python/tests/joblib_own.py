"""joblib's own tests of parallel loops, with the backend "hydrozoa" in their lists of backends, and nothing else changed.

What does not apply, or fails, is listed with its reason. Everything else passes, or this program fails.
"""

import importlib.abc
import importlib.util
import sys
from pathlib import Path

import pytest

import hydrozoa.joblib  # noqa: F401
import joblib.test

NAME = "joblib.test.test_parallel"
FILE = Path(joblib.test.__file__).with_name("test_parallel.py")

# A process of loky, or one that is made as for it, knows joblib's own backends: it would have to import hydrozoa.joblib.
REASONS = dict.fromkeys(
    (
        "test_nested_loop[loky-hydrozoa]", "test_nested_loop[back_compat_backend-hydrozoa]",
        "test_backend_nesting_level[parallel_config-hydrozoa-loky]", "test_backend_nesting_level[parallel_backend-hydrozoa-loky]",
    ),
    "does not apply",
) | dict.fromkeys(
    ("test_thread_bomb_mitigation[hydrozoa-parallel_config]", "test_thread_bomb_mitigation[hydrozoa-parallel_backend]"),
    # As loky, for which joblib expects it. The error's text is there.
    "fails at times: the RecursionError has left no room to pickle it, and comes as a RemoteError",
)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads joblib's tests with one backend more."""

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_file_location(name, FILE, loader=self) if name == NAME else None

    def exec_module(self, module):
        text = FILE.read_text()
        for old, new in (
            ('PARALLEL_BACKENDS = PROCESS_BACKENDS + ["threading"]', 'PARALLEL_BACKENDS = PROCESS_BACKENDS + ["threading", "hydrozoa"]'),
            ('["loky", "multiprocessing", "threading"]', '["loky", "multiprocessing", "threading", "hydrozoa"]'),
            ('["loky", "threading"]', '["loky", "threading", "hydrozoa"]'),
        ):
            assert old in text, f"{FILE} has no {old}"
            text = text.replace(old, new)
        exec(compile(text, FILE, "exec"), module.__dict__)


class Results:
    """Counts the tests with the backend, and prints those that fail."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if "hydrozoa" in item.nodeid.lower() or "HydrozoaBackend" in item.nodeid]

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.passed += 1
        elif report.failed:
            self.failed.append(report.nodeid.rpartition("::")[2])
        elif report.skipped:
            self.skipped.append(report.nodeid.rpartition("::")[2])


def main():
    sys.meta_path.insert(0, Finder())
    results = Results()
    options = ["--pyargs", NAME, "--assert=plain", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]
    pytest.main(options, plugins=[results])
    unknown = []
    for test in results.failed:
        reason = REASONS.get(test)
        print(f"{test}: {reason or 'UNEXPECTED'}")
        unknown += [] if reason else [test]
    for test in results.skipped:
        print(f"{test}: skipped by joblib")
    done = results.passed + len(results.failed)
    print(f"{done} tests, {results.passed} pass")
    return 1 if unknown or done < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
