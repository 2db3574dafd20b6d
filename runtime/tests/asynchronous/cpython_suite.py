"""CPython's own tests of asyncio, on the stock loop or on one that sleeps outside.

    python cpython_suite.py MODULES                   on the stock loop
    python cpython_suite.py MODULES payload/python    on a loop whose selector is that of `events.py` there

MODULES are names without `test_`, separated by commas, or `all`. The outcome of each test is a line of standard output.
"""

import asyncio
import importlib
import os
import select
import selectors
import sys
import threading
import unittest


def drive_loops(folder):
    """Has asyncio make loops that leave `run_forever` where they would sleep. They sleep here, as the host's thread does."""
    sys.path.append(folder)
    import events

    class Driven(events._Loop):
        def __init__(self, selector=None):
            if type(selector) is selectors.EpollSelector:
                selector.close()
                selector = None
            super().__init__(events._Selector() if selector is None else selector)

        def run_forever(self):
            self.thread = threading.get_ident()
            while True:
                try:
                    return super().run_forever()
                except events._WouldSleep:
                    pause = self._selector.pause
                    poll = select.poll()
                    poll.register(self._selector.fileno(), select.POLLIN)
                    poll.poll(None if pause is None else pause * 1000)

    asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = Driven
    if hasattr(asyncio, "EventLoop"):
        asyncio.EventLoop = asyncio.unix_events.EventLoop = Driven
    policies = asyncio.unix_events
    policy = getattr(policies, "_UnixDefaultEventLoopPolicy", None) or policies._DefaultEventLoopPolicy
    policy._loop_factory = Driven


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.found = {}

    def addSuccess(self, test):
        self.found.setdefault(test.id(), "ok")

    def addError(self, test, error):
        self.found[test.id()] = "error"
        print(self._exc_info_to_string(error, test), file=sys.stderr)

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(test, error)

    def addSkip(self, test, reason):
        self.found[test.id()] = "skipped"

    def addExpectedFailure(self, test, error):
        self.found[test.id()] = "expected failure"

    def addUnexpectedSuccess(self, test):
        self.found[test.id()] = "unexpected success"


def run(modules):
    package = importlib.import_module("test.test_asyncio")
    files = os.listdir(os.path.dirname(package.__file__))
    outcomes = Outcomes()
    for name in sorted(name[:-3] for name in files if name.startswith("test_") and name.endswith(".py")):
        if modules != ["all"] and name.removeprefix("test_") not in modules:
            continue
        try:
            module = importlib.import_module(f"test.test_asyncio.{name}")
        except unittest.SkipTest:
            continue  # Of another system.
        unittest.defaultTestLoader.loadTestsFromModule(module).run(outcomes)
    for test, outcome in sorted(outcomes.found.items()):
        print(test, outcome)


if len(sys.argv) > 2:
    drive_loops(sys.argv[2])
run(sys.argv[1].split(","))
sys.stdout.flush()
# Some tests leave threads behind.
os._exit(0)
