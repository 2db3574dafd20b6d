"""CPython's own tests of executors, unmodified, against hydrozoa.Executor. From 3.12 on they are a package.

What does not apply is listed with its reason. Everything else passes, or this program fails.
"""

import importlib.util
import multiprocessing
import sys
import unittest

import hydrozoa
from hydrozoa import _memory

REASONS = {
    # The programs that they start import the executor by its name from concurrent.futures.
    "test_hang_gh83386": "does not apply",
    "test_interpreter_shutdown": "does not apply",
    "test_submit_after_interpreter_shutdown": "does not apply",
}

PARTS = {
    "executor": ["ExecutorTest"],
    "test_wait": ["WaitTests"],
    "test_as_completed": ["AsCompletedTests"],
    "test_init": ["InitializerMixin", "FailingInitializerMixin"],
    "test_shutdown": ["ExecutorShutdownTest"],
}


def cases():
    util = importlib.import_module("test.test_concurrent_futures.util")

    class Mixin(util.ExecutorMixin):
        executor_type = hydrozoa.Executor

        def setUp(self):
            # The memory's thread stays, which is not a leak.
            _memory.start_returner()
            super().setUp()

        def create_event(self):
            # As the tests of processes have it, from 3.14 on.
            manager = multiprocessing.get_context("spawn").Manager()
            self.addCleanup(manager.shutdown)
            return manager.Event()

    for part, names in PARTS.items():
        module = importlib.import_module(f"test.test_concurrent_futures.{part}")
        for name in names:
            # The order of CPython's create_executor_tests.
            bases = (getattr(module, name), Mixin, util.BaseTestCase)
            yield type(f"Hydrozoa{name}", bases, {"__module__": module.__name__})


def main():
    if sys.version_info < (3, 12):
        print("the tests of executors are no package before 3.12: NOT RUN")
        return 0
    if importlib.util.find_spec("test.test_concurrent_futures") is None:
        print("this installation has no tests of executors (Debian: libpython3.X-testsuite): NOT RUN")
        return 0
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases())
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    bad = [test for test, _ in result.failures + result.errors]
    unknown = [test.id() for test in bad if test.id().rpartition(".")[2] not in REASONS]
    for test in bad:
        name = test.id().rpartition(".")[2]
        print(f"{name}: {REASONS.get(name, 'UNEXPECTED')}")
    print(f"{result.testsRun} tests, {result.testsRun - len(bad)} pass")
    # A test that passes does not belong on the list.
    passed = set(REASONS) - {test.id().rpartition(".")[2] for test in bad}
    print("".join(f"{name}: passes, and is on the list\n" for name in sorted(passed)), end="")
    return 1 if unknown or passed else 0


if __name__ == "__main__":
    sys.exit(main())
