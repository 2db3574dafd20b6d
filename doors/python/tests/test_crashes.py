"""Crashes of native code in interpreters: whose error they are, and what goes on."""

import gc
import signal
import subprocess
import sys
import textwrap
import time
import unittest
import weakref
from concurrent.futures import BrokenExecutor
from pathlib import Path

import hydrozoa
import numpy
import work

TESTS = str(Path(__file__).parent)


def status_of(code):
    """The status of a program that can import the tests' modules, and what it has written."""
    program = f"import sys; sys.path.insert(0, {TESTS!r})\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def until(what, is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"{what} has not come about")
        time.sleep(0.01)


class Executors(unittest.TestCase):
    def executor(self, *arguments, **options):
        executor = hydrozoa.Executor(*arguments, contain_crashes=True, **options)
        self.addCleanup(executor.shutdown)
        return executor

    def crashed(self, future):
        with self.assertRaises(hydrozoa.CrashedInterpreter) as caught:
            future.result(60)
        return caught.exception

    def test_a_crash_is_the_error_of_its_future_and_the_others_have_results(self):
        executor = self.executor(2)
        futures = [executor.submit(*([work.crash] if n % 10 == 5 else [work.add, n, 1])) for n in range(60)]
        for n, future in enumerate(futures):
            if n % 10 == 5:
                error = self.crashed(future)
                self.assertIsInstance(error, BrokenExecutor)
                self.assertEqual(error.status, "HZ_ERROR_CRASHED")
                self.assertIn("the interpreter has crashed (hz_error_report has the report): SIGSEGV in ", str(error))
                self.assertIn("string_at", error.report)
                self.assertIn('work.py", line ', error.report)
            else:
                self.assertEqual(future.result(60), n + 1)
        self.assertFalse(executor._broken)
        self.assertEqual(list(executor.map(work.add, range(20))), list(range(20)))

    def test_the_next_worker_has_run_the_initializer(self):
        executor = self.executor(1, initializer=work.keep, initargs=(numpy.arange(4),))
        for _ in range(3):
            self.assertEqual(executor.submit(work.kept_sum).result(60), 6)
            self.crashed(executor.submit(work.crash))

    def test_queued_calls_run_although_a_crash_comes_after_the_shutdown(self):
        executor = self.executor(1)
        slow = executor.submit(time.sleep, 0.5)
        crash = executor.submit(work.crash)
        later = [executor.submit(work.add, n) for n in range(3)]
        executor.shutdown()
        self.assertIsNone(slow.result(0))
        self.crashed(crash)
        self.assertEqual([future.result(0) for future in later], [0, 1, 2])

    def test_a_result_of_a_crashed_interpreter_stays_and_memory_lent_to_it_comes_back(self):
        executor = self.executor(1)
        result = executor.submit(work.ones, 1 << 20).result(60)[0]
        lent = numpy.ones(1 << 20)
        is_gone = weakref.ref(lent)
        self.crashed(executor.submit(work.crash, lent))
        del lent
        self.assertEqual(result.sum(), 1 << 20)
        del result
        gc.collect()
        self.assertEqual(executor.submit(work.add, 1).result(60), 1)
        until("the memory's return", lambda: is_gone() is None)

    def test_a_shared_object_is_loaded_in_the_next_interpreter(self):
        executor = self.executor(1)
        with executor.share(numpy.arange(3.0).dot) as dot:
            self.assertEqual(dot(numpy.ones(3)), 3)
            self.crashed(executor.submit(work.crash))
            self.assertEqual(executor.submit(dot, numpy.ones(3)).result(60), 3)
            self.assertEqual(dot(numpy.ones(3)), 3)

    def test_a_queue_keeps_what_a_crashed_interpreter_waits_for(self):
        executor, queue = self.executor(1), hydrozoa.create_queue()
        waits = executor.submit(work.get_and_crash_beside, queue)
        self.crashed(waits)
        for n in range(10):
            queue.put(n)
        self.assertEqual([queue.get(timeout=10) for _ in range(10)], list(range(10)))
        queue.put("next")
        self.assertEqual(executor.submit(work.get_from, queue).result(60), "next")

    def test_a_crash_on_a_thread_of_its_own_is_the_error_of_the_call_that_finds_it(self):
        executor = self.executor(1)
        executor.submit(work.crash_later).result(60)
        time.sleep(0.5)
        self.crashed(executor.submit(work.add, 1))
        self.assertEqual(executor.submit(work.add, 1).result(60), 1)

    def test_a_crash_in_an_initializer_breaks_the_executor(self):
        executor = self.executor(1, initializer=work.crash)
        with self.assertLogs("concurrent.futures", "CRITICAL"):
            with self.assertRaises(hydrozoa.BrokenInterpreterPool) as caught:
                executor.submit(work.add, 1).result(60)
        self.assertIsInstance(caught.exception.__cause__, hydrozoa.CrashedInterpreter)

    def test_crash_after_crash_leaves_no_threads(self):
        executor = self.executor(2)
        executor.submit(work.add, 1).result(60)
        counts = []
        for _ in range(10):
            self.crashed(executor.submit(work.crash))
            self.assertEqual(executor.submit(work.add, 1).result(60), 1)
            counts.append(len(list(Path("/proc/self/task").iterdir())))
        self.assertLess(counts[-1], counts[2] + 6, counts)


class Interpreters(unittest.TestCase):
    def test_an_interpreter_that_has_crashed_stays_so_and_others_go_on(self):
        with hydrozoa.Interpreter(contain_crashes=True) as broken, hydrozoa.Interpreter(contain_crashes=True) as other:
            broken.exec("before = 1")
            with self.assertRaises(hydrozoa.CrashedInterpreter) as caught:
                broken.exec("import ctypes; ctypes.string_at(0)")
            self.assertIn("string_at", caught.exception.report)
            with self.assertRaises(hydrozoa.CrashedInterpreter):
                broken.call(work.add, 1)
            self.assertEqual(other.call(work.add, 1), 1)


class Programs(unittest.TestCase):
    def test_without_the_option_a_crash_ends_the_program_with_a_report(self):
        status, _, written = status_of("""
            import hydrozoa, work
            hydrozoa.Executor(1).submit(work.crash).result()
        """)
        self.assertEqual(status, -signal.SIGSEGV)
        self.assertIn("hydrozoa: SIGSEGV in interpreter 0", written)

    def test_a_faulthandler_of_the_program_comes_first_and_the_crash_is_not_contained(self):
        status, _, written = status_of("""
            import faulthandler, hydrozoa, work
            faulthandler.enable()
            hydrozoa.Executor(1, contain_crashes=True).submit(work.crash).result()
        """)
        self.assertEqual(status, -signal.SIGSEGV)
        self.assertIn("Fatal Python error: Segmentation fault", written)

    def test_a_program_whose_interpreters_have_crashed_ends_as_any(self):
        status, printed, written = status_of("""
            import hydrozoa, work
            executor = hydrozoa.Executor(2, contain_crashes=True)
            crashes = [executor.submit(work.crash) for _ in range(3)]
            print([type(crash.exception()).__name__ for crash in crashes])
        """)
        self.assertEqual((status, printed), (0, f"{['CrashedInterpreter'] * 3}\n"), written)


if __name__ == "__main__":
    unittest.main()
