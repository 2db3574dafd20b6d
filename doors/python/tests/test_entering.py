"""Code that enters this package in the middle of its own work, on the same thread: signal handlers, finalizers and callbacks."""

import gc
import random
import signal
import sys
import textwrap
import threading
import time
import unittest
import weakref

import hydrozoa
import numpy
import work
from hydrozoa import _workers
from test_executor import script

# How often each kind of work is done in the program, and how often in what enters it.
OFTEN = 60
# In seconds.
LONG = 100


class Handlers(unittest.TestCase):
    """A timer's signals come all the time. Their handler does what the program does."""

    def interrupted(self, once, least=OFTEN):
        """Runs `once(number)`, which returns a pair that must be equal, again and again: in the program and in the handler."""
        wrong, counts, depth = [], [0, 0], 0
        numbers = random.Random(7)

        def checked(place):
            number = numbers.randrange(1 << 40)
            got, expected = once(number)
            if got != expected:
                wrong.append((got, expected))
            counts[place] += 1

        def handle(*_):
            nonlocal depth
            # A handler may be interrupted too.
            if depth < 3:
                depth += 1
                try:
                    checked(1)
                finally:
                    depth -= 1

        before = signal.signal(signal.SIGALRM, handle)
        try:
            end = time.monotonic() + LONG
            while min(counts) < least and time.monotonic() < end and not wrong:
                # The next one comes some time after this one, however slow a call is.
                if not signal.getitimer(signal.ITIMER_REAL)[0]:
                    signal.setitimer(signal.ITIMER_REAL, numbers.uniform(1e-5, 1e-3))
                checked(0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(min(counts), least)

    def test_a_handler_calls_the_interpreter_that_it_interrupts(self):
        with hydrozoa.Interpreter() as interpreter:
            self.interrupted(lambda n: (interpreter.call(work.add, n, b=1), n + 1))
            array = numpy.arange(1 << 14)
            self.interrupted(lambda n: (interpreter.call(work.plus, array, n).tolist()[:3], [n, n + 1, n + 2]))
        del array

    def test_a_handler_submits_to_the_executor_that_it_interrupts(self):
        array = numpy.arange(1 << 14)
        with hydrozoa.Executor(2) as executor:
            # Its first calls start the workers.
            self.interrupted(lambda n: (executor.submit(work.add, n, b=1).result(), n + 1))
            self.interrupted(lambda n: (executor.submit(work.plus, array, n).result().tolist()[:3], [n, n + 1, n + 2]))
            self.interrupted(lambda n: (list(executor.map(work.add, range(5), [n] * 5)), list(range(n, n + 5))))

    def test_a_handler_waits_for_a_result_while_the_thread_that_collects_results_starts(self):
        """`Thread.start` holds a lock, when the handler comes, that the new thread wants."""
        release, results = threading.Condition._release_save, []
        before = signal.signal(signal.SIGALRM, lambda *_: results.append(executor.submit(work.add, 1, b=2).result(LONG)))

        def interrupted(condition):
            threading.Condition._release_save = release
            signal.raise_signal(signal.SIGALRM)
            return release(condition)

        try:
            # The new thread may be faster.
            for _ in range(100):
                with hydrozoa.Executor(1) as executor:
                    threading.Condition._release_save = interrupted
                    self.assertEqual(executor.submit(work.add, 3, b=4).result(), 7)
                if results:
                    break
        finally:
            threading.Condition._release_save = release
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(results, [3])

    def test_a_handler_starts_and_ends_executors(self):
        def once(number):
            with hydrozoa.Executor(1) as executor:
                return executor.submit(work.add, number).result(), number

        self.interrupted(once, least=2)

    def test_a_handler_uses_the_queue_that_it_interrupts(self):
        queue, own = hydrozoa.create_queue(), set()

        def once(number):
            item = (number, numpy.full(3000, number))
            own.add(number)
            queue.put(item)
            got, array = queue.get()
            own.remove(got)
            return array.tolist()[:2], [got, got]

        self.interrupted(once)
        self.assertEqual((own, queue.qsize()), (set(), 0))

    def test_a_handler_waits_for_what_it_interrupts_the_wait_for(self):
        waited = []

        def handle(*_):
            waited.append(future.result(timeout=60))

        before = signal.signal(signal.SIGALRM, handle)
        try:
            with hydrozoa.Executor(1) as executor:
                for _ in range(300):
                    future = executor.submit(work.plus, numpy.ones(3000), 1)
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-4))
                    self.assertEqual(future.result(timeout=60)[0], 2)
                    signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertEqual({array[0] for array in waited}, {2})

    def test_a_handler_that_raises_leaves_all_as_it_was(self):
        class Stop(Exception):
            pass

        def handle(*_):
            raise Stop

        before, stops = signal.signal(signal.SIGALRM, handle), 0
        try:
            with hydrozoa.Interpreter() as interpreter, hydrozoa.Executor(1) as executor:
                executor.submit(work.pid).result()
                for number in range(600):
                    try:
                        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 5e-4))
                        interpreter.call(work.add, number)
                        executor.submit(work.add, number).result(timeout=60)
                        signal.setitimer(signal.ITIMER_REAL, 0)
                    except Stop:
                        stops += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
                self.assertGreater(stops, 0)
                self.assertFalse(interpreter.is_running())
                self.assertEqual(interpreter.call(work.add, 1, 2), 3)
                self.assertEqual(executor.submit(work.add, 1, 2).result(timeout=60), 3)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class Finalizers(unittest.TestCase):
    """Objects that are collected while the package works call it too, on any of its threads."""

    def collected(self, once):
        """Runs `once` again and again, and in the finalizers of garbage that the collector of cycles finds meanwhile."""
        results, entered, is_inside = [], [], threading.local()

        class Garbage:
            def __init__(self):
                self.itself = self

            def __del__(self):
                if getattr(is_inside, "it", False):
                    return
                is_inside.it = True
                try:
                    entered.append(once())
                finally:
                    is_inside.it = False

        thresholds = gc.get_threshold()
        # It looks at little, and often.
        gc.freeze()
        gc.set_threshold(50, 2, 2)
        try:
            end = time.monotonic() + LONG
            while min(len(results), len(entered)) < OFTEN and time.monotonic() < end:
                Garbage()
                results.append(once())
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()
        self.assertGreaterEqual(min(len(results), len(entered)), OFTEN)
        self.assertEqual(set(results + entered), {True})

    def test_a_finalizer_calls_the_interpreter_that_it_interrupts(self):
        with hydrozoa.Interpreter() as interpreter:
            self.collected(lambda: interpreter.call(work.add, [1] * 9, [2]) == [1] * 9 + [2])

    def test_a_finalizer_waits_for_the_executor_that_it_interrupts(self):
        with hydrozoa.Executor(2) as executor:
            def once():
                futures = [executor.submit(work.add, [n], [[]] * 30) for n in range(5)]
                return [future.result()[0] for future in futures] == list(range(5))

            # The thread that collects results has to find garbage once too.
            with unittest.mock.patch.object(_workers, "PATIENCE", 0):
                self.collected(once)

    def test_code_that_the_collector_runs_waits_for_further_results(self):
        with hydrozoa.Executor(1) as executor:
            done = threading.Event()
            got = []

            def callback(future):
                got.append(executor.submit(work.add, future.result(), 1).result(timeout=60))
                if len(got) == 5:
                    done.set()

            for number in range(5):
                executor.submit(work.later, number, 0.01).add_done_callback(callback)
            self.assertTrue(done.wait(60))
            self.assertEqual(sorted(got), [1, 2, 3, 4, 5])

    def test_a_finalizer_ends_what_is_used(self):
        for _ in range(5):
            executor = hydrozoa.Executor(1)
            array = executor.submit(work.ones, 3000).result()[0]
            end = weakref.finalize(array, executor.shutdown)
            del array
            # The thread that has made it may have it a moment longer.
            while end.alive:
                time.sleep(0.001)
            self.assertRaises(RuntimeError, executor.submit, work.pid)


class Ends(unittest.TestCase):
    """A program that ends while its interpreters use its memory has its own status, and says nothing."""

    STATES = {
        "an interpreter's thread gives memory back": """
            interpreter = hydrozoa.Interpreter()
            array = numpy.ones(1000)
            queue = hydrozoa.create_queue()
            interpreter.call(work.drop_for_ever, queue)
            for _ in range(200):
                queue.put(array)
        """,
        "calls run": """
            executor = hydrozoa.Executor(2)
            executor.submit(work.pid).result()
            for n in range(50):
                executor.submit(work.plus, numpy.ones(100000), n)
        """,
        "interpreters are there": """
            interpreters = [hydrozoa.Interpreter() for _ in range(2)]
            kept = [interpreter.call(work.keep, numpy.ones(1000)) for interpreter in interpreters]
            results = [interpreter.call(work.ones, 1000) for interpreter in interpreters]
        """,
        "a thread calls": """
            interpreter = hydrozoa.Interpreter()

            def call():
                while True:
                    interpreter.call(work.plus, numpy.ones(1000), 1)

            for _ in range(2):
                threading.Thread(target=call, daemon=True).start()
            time.sleep(0.05)
        """,
        "an interrupt ends it": """
            interpreter = hydrozoa.Interpreter()
            interpreter.call(work.keep, numpy.ones(1000))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.excepthook = lambda *_: None
            signal.raise_signal(signal.SIGINT)
        """,
    }
    STATUSES = {"an interrupt ends it": -2}
    ROUNDS = 2

    def test_a_program_ends_in_every_state(self):
        for name, code in self.STATES.items():
            program = (
                "import signal, sys, threading, time\nimport numpy\nimport hydrozoa, work\n"
                + textwrap.dedent(code)
                + "\nprint('end', flush=True)\nsys.exit(7)\n"
            )
            expected = self.STATUSES.get(name, 7)
            for _ in range(self.ROUNDS):
                with self.subTest(name):
                    self.assertEqual(ended(program), (expected, "" if expected < 0 else "end\n", ""))


def ended(program):
    """The status of a program, and what it has printed."""
    import subprocess
    from test_executor import TESTS

    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {TESTS!r})\n{program}"],
        capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    unittest.main()
