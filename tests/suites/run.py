"""Runs tests of a suite and reports each test as it starts and ends.

    run.py pytest|unittest --folder DIR [--root DIR] [--marks EXPRESSION] [--select FILE] [--leave FILE] [--memory GIB] NAME...

Plain python and every copy of an interpreter run it alike. The report is DIR/copy-K.jsonl, a JSON object on each line. It is
written without a buffer: when the process dies, its last lines name the test that ran. NAME is a file for pytest and a
module for unittest. FILE has one test on each line: with --select only those run, with --leave all others.
"""

import argparse
import faulthandler
import json
import os
import resource
import sys
import traceback
import unittest
from pathlib import Path

COPY = int(os.environ.get("HYDROZOA_COPY", "0"))
"""The number of the copy or of the process in which this runs."""


class Report:
    def __init__(self, folder):
        self.file = open(folder / f"copy-{COPY}.jsonl", "ab", buffering=0)
        self.ended = set()

    def line(self, **fields):
        self.file.write(json.dumps(fields).encode() + b"\n")

    def start(self, test):
        self.line(start=test)

    def end(self, test, outcome, why=""):
        """The first bad outcome of a test counts: a test may pass and its teardown fail."""
        if test not in self.ended:
            self.ended.add(test)
            self.line(test=test, outcome=outcome, why=why[:300])


def listed(path):
    return set(path.read_text().splitlines()) if path else None


class Plugin:
    """Reports what pytest does."""

    def __init__(self, report, select, leave):
        self.report, self.select, self.leave = report, select, leave
        self.outcomes = {}

    def pytest_collection_modifyitems(self, items):
        keep = lambda name: (self.select is None or name in self.select) and not (self.leave and name in self.leave)
        items[:] = [item for item in items if keep(item.nodeid)]

    def pytest_collectreport(self, report):
        if report.failed:
            self.report.start(report.nodeid)
            self.report.end(report.nodeid, "failed", last_line(str(report.longrepr)))

    def pytest_runtest_logstart(self, nodeid, location):
        self.report.start(nodeid)
        self.outcomes[nodeid] = ("passed", "")

    def pytest_runtest_logreport(self, report):
        if report.outcome != "passed" and self.outcomes[report.nodeid][0] != "failed":
            self.outcomes[report.nodeid] = (report.outcome, last_line(str(report.longrepr)))

    def pytest_runtest_logfinish(self, nodeid, location):
        self.report.end(nodeid, *self.outcomes.pop(nodeid))


def last_line(text):
    """The line that says what went wrong: pytest marks it with `E`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (marked or lines or [""])[0 if marked else -1]


def with_pytest(arguments, report):
    import pytest

    settings = arguments.folder / f"settings-{COPY}.ini"
    settings.write_text("[pytest]\n")
    # Copies share the process's standard streams, so each captures those of its own sys. Fixed settings: a suite's own may
    # name plug-ins that are not installed.
    options = ["-q", "-c", settings, "--rootdir", arguments.root, "--basetemp", arguments.folder / f"temporary-{COPY}"]
    options += ["--capture=sys", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--continue-on-collection-errors"]
    if arguments.marks:
        options += ["-m", arguments.marks]
    if arguments.no_conftest:
        options.append("--noconftest")
    plugin = Plugin(report, listed(arguments.select), listed(arguments.leave))
    names = arguments.names
    while True:
        try:
            return int(pytest.main([str(option) for option in [*options, *names]], [plugin]))
        except pytest.skip.Exception as skip:
            why = str(skip)
            # pytest has no place for a folder that skips itself in its conftest.py, if a file of it is named.
            folder = conftest_of(skip)
            inside = {name for name in names if folder and folder in (arguments.root / name).resolve().parents}
            if not inside:
                raise
        for name in inside:
            report.start(name)
            report.end(name, "skipped", why)
        names = [name for name in names if name not in inside]
        if not names:
            return 0


def conftest_of(error):
    """The folder of the conftest.py that raised an error, if one did."""
    frames = traceback.extract_tb(error.__traceback__)
    files = [Path(frame.filename) for frame in frames]
    return next((file.parent.resolve() for file in reversed(files) if file.name == "conftest.py"), None)


class Result(unittest.TestResult):
    """Reports what unittest does."""

    def __init__(self, report):
        super().__init__()
        self.report = report

    def startTest(self, test):
        super().startTest(test)
        self.report.start(test.id())
        self.outcome = ("passed", "")

    def stopTest(self, test):
        super().stopTest(test)
        self.report.end(test.id(), *self.outcome)

    def failed(self, test, error):
        why = f"{error[0].__name__}: {error[1]}".splitlines()[0]
        if isinstance(test, unittest.TestCase):
            self.outcome = ("failed", why)
        else:
            # The set-up of a class or a module.
            self.report.end(test.id(), "failed", why)

    def addError(self, test, error):
        super().addError(test, error)
        self.failed(test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.failed(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.failed(test, error)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = ("skipped", reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome = ("failed", "unexpected success")


def tests_of(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_of(one)
        else:
            yield one


def with_unittest(arguments, report):
    # CPython's helpers name temporary files after the process. Copies share it, so each has a number of its own.
    real = os.getpid
    os.getpid = lambda: real() * 100 + COPY
    from test import support
    from test.support import os_helper  # noqa: F401

    os.getpid = real
    # Nothing that needs a network, a display or hours (regrtest's -u).
    support.use_resources = ()
    select, leave = listed(arguments.select), listed(arguments.leave) or set()
    for name in arguments.names:
        try:
            suite = unittest.defaultTestLoader.loadTestsFromName(name)
        except unittest.SkipTest as skip:
            report.start(name)
            report.end(name, "skipped", str(skip))
            continue
        keep = [test for test in tests_of(suite) if test.id() not in leave and (select is None or test.id() in select)]
        unittest.TestSuite(keep).run(Result(report))
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["pytest", "unittest"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--root", type=Path, default=Path.cwd())
    parser.add_argument("--path", type=Path, action="append", default=[])
    parser.add_argument("--marks", default="")
    parser.add_argument("--no-conftest", action="store_true")
    parser.add_argument("--select", type=Path)
    parser.add_argument("--leave", type=Path)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--memory", type=int, help="the limit of the process's data, in GiB")
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    if arguments.memory:
        limit = arguments.memory << 30
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    # Tests import helpers beside them, and never the driver's own folder.
    sys.path[0:1] = [str(path) for path in arguments.path]
    sys.argv[1:] = []
    if arguments.seconds:
        faulthandler.dump_traceback_later(arguments.seconds)
    # Each copy has a current folder of its own, as each process has.
    own = arguments.folder / f"in-{COPY}"
    own.mkdir(exist_ok=True)
    os.chdir(own)
    report = Report(arguments.folder)
    run = with_pytest if arguments.kind == "pytest" else with_unittest
    status = run(arguments, report)
    faulthandler.cancel_dump_traceback_later()
    report.line(end=status)


if __name__ == "__main__":
    main()
