"""One interpreter: code, names, calls, threads and its end."""

import gc
import os
import threading
import time
import unittest

import numpy

import hydrozoa
import work


class Interpreters(unittest.TestCase):
    def setUp(self):
        self.interpreter = hydrozoa.Interpreter()
        self.addCleanup(self.interpreter.close)

    def test_code_runs_in_its_main_and_names_stay(self):
        array = numpy.arange(6.0)
        self.interpreter.prepare_main({"first": 1}, array=array)
        self.interpreter.exec("""
            second = first + 1
            is_same = array.sum() == 15
            def area(width, height=2):
                return width * height
        """)
        self.assertEqual(self.interpreter.call(work.of_main, "second, is_same, area(4), __name__"), (2, True, 8, "__main__"))
        self.assertRaises(NameError, eval, "second")

    def test_a_call_has_a_result_and_shares_memory(self):
        array = numpy.ones(100)
        self.assertEqual(self.interpreter.call(work.address, array), work.address(array))
        self.assertEqual(self.interpreter.call(work.add, 1, b=2), 3)
        self.assertEqual(self.interpreter.call(work.pid), os.getpid())

    def test_an_exception_is_the_cause_of_what_is_raised(self):
        with self.assertRaises(hydrozoa.ExecutionFailed) as caught:
            self.interpreter.call(work.fail, 7)
        self.assertIsInstance(caught.exception.__cause__, ValueError)
        info = caught.exception.excinfo
        self.assertEqual((info.type, info.msg, info.formatted), (ValueError, "7", "ValueError: 7"))
        with self.assertRaisesRegex(hydrozoa.ExecutionFailed, "ZeroDivisionError"):
            self.interpreter.exec("1 / 0")
        with self.assertRaisesRegex(hydrozoa.ExecutionFailed, "SyntaxError"):
            self.interpreter.exec("1 /")
        self.assertRaises(TypeError, self.interpreter.exec, work.pid)
        self.assertEqual(self.interpreter.call(work.add, 1), 1)

    def test_threads_call_at_once_and_on_their_own(self):
        self.interpreter.exec("seen = []")
        threads = [self.interpreter.call_in_thread(work.of_main, f"seen.append({n})") for n in range(8)]
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(self.interpreter.call(work.of_main, "seen")), list(range(8)))
        with hydrozoa.Interpreter() as other:
            begin = time.monotonic()
            sleeping = [one.call_in_thread(time.sleep, 0.5) for one in (self.interpreter, other)]
            time.sleep(0.1)
            self.assertTrue(other.is_running() and self.interpreter.is_running())
            with self.assertRaisesRegex(hydrozoa.InterpreterError, "calls that run"):
                other.close()
            for thread in sleeping:
                thread.join()
            self.assertLess(time.monotonic() - begin, 5)
            self.assertNotEqual(self.interpreter.id, other.id)

    def test_a_call_can_be_interrupted(self):
        failures = []

        def spin():
            try:
                self.interpreter.call(work.spin)
            except KeyboardInterrupt as error:
                failures.append(error)

        thread = threading.Thread(target=spin)
        thread.start()
        while not self.interpreter.interrupt():
            time.sleep(0.01)
        thread.join(30)
        self.assertEqual(len(failures), 1)
        self.assertEqual(self.interpreter.call(work.add, 1), 1)

    def test_a_closed_one_refuses_and_its_results_stay(self):
        array, _ = self.interpreter.call(work.ones, 1000)
        self.interpreter.close()
        self.interpreter.close()
        with self.assertRaisesRegex(hydrozoa.InterpreterError, "closed"):
            self.interpreter.call(work.pid)
        gc.collect()
        self.assertEqual(array.sum(), 1000)

    def test_interpreters_that_are_forgotten_end(self):
        ends = []
        for _ in range(5):
            forgotten = hydrozoa.Interpreter()
            forgotten.call_in_thread(work.pid).join()
            ends.append(forgotten._pool._owned.end)
            self.assertTrue(ends[-1].alive)
        del forgotten
        gc.collect()
        self.assertFalse([end for end in ends if end.alive])


if __name__ == "__main__":
    unittest.main()
