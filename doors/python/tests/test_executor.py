"""Calls: results, exceptions, functions, the life of an executor, and the Python around it."""

import asyncio
import contextlib
import faulthandler
import itertools
import locale
import math
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import unittest
from concurrent.futures import BrokenExecutor, CancelledError, wait
from pathlib import Path
from unittest import mock

import hydrozoa
import work
from hydrozoa import _workers

TESTS = str(Path(__file__).parent)


def script(code, *arguments):
    """The output of a program that can import the tests' modules."""
    program = f"import sys; sys.path.insert(0, {TESTS!r})\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.executor = hydrozoa.Executor(2)
        cls.addClassCleanup(cls.executor.shutdown)

    def test_a_call_runs_in_another_interpreter_of_this_process(self):
        pids = {self.executor.submit(work.pid).result() for _ in range(4)}
        self.assertEqual(pids, {work.pid()})
        self.assertNotEqual(self.executor.submit(work.identity).result(), work.identity())

    def test_arguments_and_keywords_arrive(self):
        self.assertEqual(self.executor.submit(work.add, "a", b="b").result(), "ab")

    def test_map_keeps_the_order_with_chunks_and_without(self):
        squares = [n * n for n in range(100)]
        for size in (1, 7, 1000):
            self.assertEqual(list(self.executor.map(pow, range(100), [2] * 100, chunksize=size)), squares)

    def test_an_exception_keeps_its_class_its_arguments_and_its_cause(self):
        with self.assertRaises(ValueError) as caught:
            self.executor.submit(work.fail, 1, "two").result()
        error = caught.exception
        self.assertEqual(error.args, (1, "two"))
        self.assertIsInstance(error.__cause__, LookupError)
        shown = "".join(traceback.format_exception(error))
        self.assertIn('raise ValueError(*args) from cause', shown)

    def test_an_exception_that_cannot_be_pickled_is_told_with_its_name_and_traceback(self):
        with self.assertRaises(hydrozoa.RemoteError) as caught:
            self.executor.submit(work.fail_unpicklably).result()
        self.assertEqual(str(caught.exception), "work.Unpicklable: here")
        self.assertIn("fail_unpicklably", str(caught.exception.__cause__))

    def test_a_result_that_cannot_be_pickled_is_an_error(self):
        with self.assertRaisesRegex(TypeError, "lock"):
            self.executor.submit(work.unpicklable).result()

    def test_a_local_function_goes_by_cloudpickle(self):
        base = 40
        self.assertEqual(self.executor.submit(lambda n: base + n, 2).result(), 42)

    def test_without_cloudpickle_the_error_says_what_to_do(self):
        with mock.patch.dict(sys.modules, {"cloudpickle": None, "joblib": None, "joblib.externals": None}):
            with self.assertRaisesRegex(pickle.PicklingError, "install cloudpickle"):
                self.executor.submit(lambda: 1)

    def test_coroutines_wait_for_it(self):
        async def both():
            loop = asyncio.get_running_loop()
            return await asyncio.gather(*(loop.run_in_executor(self.executor, math.sqrt, n) for n in (4, 9)))

        self.assertEqual(asyncio.run(both()), [2.0, 3.0])

    def test_an_asynchronous_map_keeps_the_order_and_reads_no_more_than_it_may(self):
        read = []

        async def numbers():
            for number in range(20):
                read.append(number)
                await asyncio.sleep(0)
                yield number

        async def all_of_them():
            results = []
            async for result in self.executor.amap(work.add, numbers(), itertools.count(100), limit=3):
                # The inputs read whose results have not come out yet: this one is out.
                self.assertLessEqual(len(read) - len(results), 3)
                results.append(result)
            return results

        self.assertEqual(asyncio.run(all_of_them()), [100 + 2 * number for number in range(20)])

    def test_an_asynchronous_map_that_is_left_cancels_what_has_not_begun(self):
        async def some():
            async with contextlib.aclosing(executor.amap(work.noted, range(6), [0.5] * 6, limit=6)) as results:
                async for result in results:
                    return result

        async def failing():
            return [result async for result in executor.amap(work.fail, range(3))]

        with hydrozoa.Executor(1) as executor:
            executor.submit(work.pid).result()
            self.assertEqual(asyncio.run(some()), 0)
            # The first call, and the one that had begun.
            self.assertLess(len(executor.submit(work.get_notes).result()), 6)
            with self.assertRaises(ValueError):
                asyncio.run(failing())
            with self.assertRaises(ValueError):
                executor.amap(abs, [1], limit=0)

    def test_an_interpreter_may_import_this_package_and_starts_no_interpreters(self):
        with self.assertRaisesRegex(hydrozoa.Error, "main program"):
            self.executor.submit(work.nest).result()

    def test_an_interrupt_while_a_result_is_made_a_value_loses_nothing(self):
        this, ends, end = threading.current_thread(), [], _workers.Future._end

        def interrupted(future, job):
            ends.append(threading.current_thread())
            if ends == [this]:
                raise KeyboardInterrupt
            end(future, job)

        with mock.patch.object(_workers.Future, "_end", interrupted), mock.patch.object(_workers, "PATIENCE", 60_000_000):
            # The collector takes a result that is there before this thread looks for it, as on a busy machine.
            for pause in (0.1, 1, 10):
                future = self.executor.submit(work.later, 42, pause)
                try:
                    self.assertEqual(future.result(timeout=60), 42)
                except KeyboardInterrupt:
                    break
                ends.clear()
            self.assertEqual(future.result(timeout=60), 42)
        # The second is the collector, or this thread again.
        self.assertEqual(len(ends), 2)
        self.assertIs(ends[0], this)

    def test_threads_that_wait_for_one_result_all_get_it(self):
        for pause in (0, 0.00002, 0.1):
            future, got = self.executor.submit(work.later, 7, pause), []
            threads = [threading.Thread(target=lambda: got.append(future.result(timeout=60))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(got, [7] * 8)

    def test_who_waits_for_several_hears_of_results_errors_and_cancellations(self):
        with hydrozoa.Executor(1) as executor:
            first = executor.submit(time.sleep, 0.3)
            futures = [executor.submit(work.add, 1, n) for n in range(5)] + [executor.submit(work.fail)]
            self.assertTrue(futures[2].cancel())
            self.assertTrue(futures[2].cancel())
            done, left = wait([first, *futures], timeout=60)
            self.assertEqual((len(done), left), (7, set()))
            self.assertTrue(futures[2].cancelled() and not futures[2].running())
            self.assertIsInstance(futures[5].exception(), ValueError)
            self.assertFalse(futures[0].cancel())

    def test_many_threads_submit_at_once(self):
        sums = []

        def submit():
            sums.append(sum(self.executor.map(work.add, range(200), range(200))))

        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sums, [sum(range(200)) * 2] * 8)


class Lives(unittest.TestCase):
    def test_each_interpreter_is_initialized(self):
        with hydrozoa.Executor(2, initializer=work.initialize, initargs=(7,)) as executor:
            self.assertEqual([executor.submit(work.get_initialized).result() for _ in range(6)], [7] * 6)

    def test_an_initializer_that_fails_breaks_the_executor(self):
        with self.assertLogs("concurrent.futures", "CRITICAL"), hydrozoa.Executor(2, initializer=work.fail) as executor:
            with self.assertRaises(BrokenExecutor):
                executor.submit(work.pid).result()
            with self.assertRaises(BrokenExecutor):
                executor.submit(work.pid)

    def test_a_call_that_was_cancelled_does_not_keep_others_from_hearing_of_the_failure(self):
        with self.assertLogs("concurrent.futures", "CRITICAL"), hydrozoa.Executor(1, initializer=work.fail_slowly) as executor:
            begun, cancelled, other = (executor.submit(work.pid) for _ in range(3))
            self.assertTrue(cancelled.cancel())
            for future in (begun, other):
                with self.assertRaises(BrokenExecutor):
                    future.result(timeout=60)
            with self.assertRaises(CancelledError):
                cancelled.result()

    def test_a_python_that_is_not_there_breaks_the_executor_with_its_reason(self):
        with self.assertLogs("concurrent.futures", "CRITICAL"), hydrozoa.Executor(1, python="/no/such/python") as executor:
            with self.assertRaises(BrokenExecutor) as caught:
                executor.submit(work.pid).result()
            self.assertIn("/no/such/python", str(caught.exception.__cause__))

    def test_a_worker_that_the_system_gives_no_thread_breaks_the_executor(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            self.assertLogs("concurrent.futures", "CRITICAL"),
            hydrozoa.Executor(2) as executor,
        ):
            begun = Path(folder, "begun")
            running = executor.submit(work.sleep_after, begun, 0.5)
            # A call that has not begun would be given up.
            while not begun.exists():
                time.sleep(0.01)
            with mock.patch.object(executor._workers, "_start", side_effect=hydrozoa.Error("no thread")):
                queued = executor.submit(work.pid)
                with self.assertRaises(BrokenExecutor):
                    queued.result(timeout=60)
            self.assertIsNone(running.result(timeout=60))

    def test_what_has_not_begun_is_cancelled(self):
        executor = hydrozoa.Executor(1)
        executor.submit(work.pid).result()
        futures = [executor.submit(time.sleep, 0.2) for _ in range(5)]
        executor.shutdown(cancel_futures=True)
        self.assertGreater(sum(future.cancelled() for future in futures), 0)
        for future in futures:
            if not future.cancelled():
                self.assertIsNone(future.result())
        with self.assertRaises(RuntimeError):
            executor.submit(work.pid)

    def test_a_call_that_loops_is_interrupted(self):
        with hydrozoa.Executor(1) as executor:
            executor.submit(work.pid).result()
            future = executor.submit(work.spin)
            while not executor.interrupt():
                time.sleep(0.01)
            with self.assertRaises(KeyboardInterrupt):
                future.result(timeout=60)
            self.assertEqual(executor.submit(work.add, 1, 2).result(), 3)

    def test_an_interrupt_of_the_program_ends_a_map(self):
        printed = script("""
            import os, signal, threading
            import hydrozoa, work
            # A program that was started with SIGINT ignored has no handler.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                with hydrozoa.Executor(2) as executor:
                    executor.submit(work.pid).result()
                    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
                    list(executor.map(work.same, (0,)))
                    executor.submit(work.spin).result()
            except KeyboardInterrupt:
                print("interrupted")
        """)
        self.assertEqual(printed, "interrupted\n")

    def test_many_executors_leave_no_threads(self):
        def cycle():
            with hydrozoa.Executor(1) as executor:
                executor.submit(work.pid).result()

        def count():
            return len(list(Path("/proc/self/task").iterdir()))

        cycle()
        before = count()
        for _ in range(10):
            cycle()
        # A thread that has been joined may still be ending.
        end = time.monotonic() + 30
        while count() > before and time.monotonic() < end:
            time.sleep(0.01)
        self.assertLessEqual(count(), before)

    def test_a_manager_s_list_is_used_in_interpreters(self):
        printed = script("""
            import multiprocessing
            import hydrozoa, work
            if __name__ == "__main__":
                with multiprocessing.Manager() as manager, hydrozoa.Executor(2) as executor:
                    shared = manager.list()
                    list(executor.map(work.append, [shared] * 4, range(4)))
                    print(sorted(shared))
        """)
        self.assertEqual(printed, "[0, 1, 2, 3]\n")

    def test_an_interrupt_may_come_while_the_interpreters_start(self):
        with hydrozoa.Executor(2) as executor:
            future = executor.submit(work.pid)
            while not future.done():
                executor.interrupt()
            self.assertNotIsInstance(future.exception(), BrokenExecutor)
            self.assertEqual(executor.submit(work.add, 1, 2).result(), 3)

    def test_an_interrupt_may_come_while_the_interpreters_end(self):
        executor = hydrozoa.Executor(2)
        for _ in range(20):
            list(executor.map(abs, range(4)))
            over = threading.Event()

            def interrupt():
                while not over.is_set():
                    executor.interrupt()

            thread = threading.Thread(target=interrupt)
            thread.start()
            executor.shutdown()
            over.set()
            thread.join()
            self.assertEqual(executor.interrupt(), 0)
            executor = hydrozoa.Executor(2)

    def test_settled_interpreters_answer_as_before(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, hydrozoa.Executor(2, dense=folder) as executor:
            before = list(executor.map(work.add, range(20)))
            left = executor.settle()
            self.assertLess(left, 8 << 20)
            self.assertEqual(list(executor.map(work.add, range(20))), before)
            running = executor.submit(time.sleep, 2)
            while not running.running():
                time.sleep(0.01)
            time.sleep(0.2)
            with self.assertRaisesRegex(hydrozoa.Error, "not settled: calls on it"):
                executor.settle()
            running.result()
        with hydrozoa.Executor(1) as executor:
            executor.submit(work.pid).result()
            with self.assertRaisesRegex(hydrozoa.Error, "settle"):
                executor.settle()

    def test_interpreters_of_a_dense_executor_are_settled_by_themselves(self):
        def anonymous():
            with open("/proc/self/smaps_rollup") as lines:
                return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Anonymous:"))

        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, hydrozoa.Executor(2, dense=folder) as executor:
            before = list(executor.map(work.add, range(20)))
            full, end = anonymous(), time.monotonic() + 60
            while anonymous() > full - (4 << 20):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            self.assertEqual(list(executor.map(work.add, range(20))), before)

    def test_a_forked_child_is_told_that_the_executor_is_its_parent_s_and_makes_one_of_its_own(self):
        printed = script("""
            import os, warnings
            import hydrozoa, work
            warnings.simplefilter("ignore")
            executor = hydrozoa.Executor(2)
            executor.submit(work.pid).result()
            child = os.fork()
            if child == 0:
                try:
                    executor.submit(work.pid)
                except hydrozoa.BrokenInterpreterPool as error:
                    print(error.__cause__, flush=True)
                executor.shutdown()
                with hydrozoa.Executor(1) as own:
                    print(own.submit(work.pid).result() == os.getpid(), flush=True)
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), executor.submit(work.add, 1).result())
            executor.shutdown()
        """)
        self.assertEqual(
            printed, "this process is a forked child, and the executor is its parent's: make one here\nTrue\n0 1\n")

    def test_an_executor_that_is_forgotten_ends(self):
        executor = hydrozoa.Executor(1)
        executor.submit(work.pid).result()
        thread = executor._workers.collector
        del executor
        thread.join(30)
        self.assertFalse(thread.is_alive())

    def test_a_program_may_end_with_an_executor_that_has_results_left(self):
        printed = script("""
            import hydrozoa, numpy, work
            executor = hydrozoa.Executor(2)
            array = executor.submit(work.ones, 1 << 20).result()[0]
            print(array.sum())
        """)
        self.assertEqual(printed, "1048576.0\n")


class Programs(unittest.TestCase):
    def test_a_program_without_a_guard_is_not_run_again(self):
        printed = script("""
            import hydrozoa
            print("once")
            def double(n):
                return 2 * n
            executor = hydrozoa.Executor(2)
            print(list(executor.map(double, range(3))))
            executor.shutdown()
        """)
        self.assertEqual(printed, "once\n[0, 2, 4]\n")

    def test_handlers_the_locale_and_faulthandler_stay_as_they_are(self):
        def state():
            handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
            return handlers, locale.setlocale(locale.LC_ALL), faulthandler.is_enabled(), threading.excepthook, sys.excepthook

        before = state()
        with hydrozoa.Executor(2) as executor:
            executor.submit(work.pid).result()
            self.assertEqual(state(), before)
        self.assertEqual(state(), before)


if __name__ == "__main__":
    unittest.main()
