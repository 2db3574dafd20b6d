"""joblib's calls in interpreters."""

import os
import threading
import time
import unittest
import warnings
from unittest import mock

import joblib
import numpy

import hydrozoa
import hydrozoa.joblib
import queue_work
import work
from joblib import Parallel, delayed


class Joblib(unittest.TestCase):
    def setUp(self):
        self.enterContext(joblib.parallel_config("hydrozoa", n_jobs=2))

    if not hasattr(unittest.TestCase, "enterContext"):
        # Python 3.10.
        def enterContext(self, context):
            value = context.__enter__()
            self.addCleanup(context.__exit__, None, None, None)
            return value

    def test_calls_run_in_interpreters_that_stay(self):
        def seen():
            return set(Parallel()(delayed(work.where)() for _ in range(20)))

        first = seen()
        self.assertTrue(first and all(copy for _, copy in first), first)
        self.assertLessEqual(len(first), 2)
        self.assertLessEqual(len(first | seen()), 2)

    def test_results_have_the_order_of_the_calls(self):
        self.assertEqual(Parallel()(delayed(lambda n: n * n)(n) for n in range(200)), [n * n for n in range(200)])
        lazily = Parallel(return_as="generator")(delayed(abs)(-n) for n in range(10))
        self.assertEqual(list(lazily), list(range(10)))

    def test_an_exception_ends_the_loop_and_the_next_one_works(self):
        with self.assertRaises(ValueError) as caught:
            Parallel()(delayed(work.fail)(n) for n in range(50))
        self.assertIsInstance(caught.exception.__cause__, LookupError)
        self.assertEqual(Parallel()(delayed(abs)(n) for n in range(-3, 0)), [3, 2, 1])

    def test_a_queue_lives_on_its_way(self):
        made = Parallel()(delayed(queue_work.put)(hydrozoa.create_queue(), number) for number in range(20))
        self.assertEqual([queue.get() for queue in made], list(range(20)))

    def test_long_arrays_are_shared_and_short_ones_copied(self):
        array = numpy.ones(1 << 18)
        for described in Parallel()(delayed(work.described)(array) for _ in range(4)):
            self.assertEqual(described, (False, work.address(array)))
        short = array[:100].copy()
        for writable, address in Parallel()(delayed(work.described)(short) for _ in range(4)):
            self.assertTrue(writable)
            self.assertNotEqual(address, work.address(short))
        for options in ({"max_nbytes": None}, {"mmap_mode": "c"}):
            for writable, address in Parallel(**options)(delayed(work.described)(array) for _ in range(4)):
                self.assertTrue(writable)

    def test_loops_with_other_options_run_beside_each_other(self):
        results = {}

        def loop(n_jobs):
            with joblib.parallel_config("hydrozoa", n_jobs=n_jobs):
                results[n_jobs] = Parallel()(delayed(work.add)(n, n_jobs) for n in range(300))

        threads = [threading.Thread(target=loop, args=(n_jobs,)) for n_jobs in (2, 3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {n_jobs: [n + n_jobs for n in range(300)] for n_jobs in (2, 3, 4)})

    def test_an_exception_ends_no_other_loop(self):
        results = []
        begun = threading.Event()

        def numbers():
            for n in range(40):
                yield n
                begun.set()

        def loop():
            with joblib.parallel_config("hydrozoa", n_jobs=2):
                results.append(Parallel(batch_size=1)(delayed(work.slow)(n) for n in numbers()))

        thread = threading.Thread(target=loop)
        thread.start()
        begun.wait()
        for _ in range(3):
            with self.assertRaises(ValueError):
                Parallel(batch_size=1)(delayed(work.fail)(n) for n in range(4))
        thread.join()
        self.assertEqual(results, [list(range(40))])

    def test_interpreters_that_nobody_uses_end(self):
        with joblib.parallel_config("hydrozoa", n_jobs=2, idle_worker_timeout=0.1):
            Parallel()([delayed(abs)(-1)])
        deadline = time.monotonic() + 30
        while hydrozoa.joblib._reusable._entries and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(hydrozoa.joblib._reusable._entries, [])

    def test_a_loop_in_a_call_runs_there(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(Parallel()(delayed(work.nested)([-1, n]) for n in range(4)), [[1, n] for n in range(4)])
        def inner():
            return Parallel(n_jobs=2)(delayed(work.where)() for _ in range(2))

        self.assertTrue(all(copy for calls in Parallel()(delayed(inner)() for _ in range(4)) for _, copy in calls))

    def test_libraries_have_a_share_of_the_processors(self):
        names = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
        with mock.patch.dict(os.environ):
            for name in names:
                os.environ.pop(name, None)
            share = str(max(1, len(os.sched_getaffinity(0)) // 3))
            self.assertEqual(Parallel(n_jobs=3)([delayed(work.threads_of)(*names)]), [[share, share]])
            os.environ["OMP_NUM_THREADS"] = "5"
            with joblib.parallel_config("hydrozoa", n_jobs=4):
                self.assertEqual(Parallel()([delayed(work.threads_of)(*names)])[0][0], "5")
            with joblib.parallel_config("hydrozoa", n_jobs=2, inner_max_num_threads=3):
                self.assertEqual(Parallel()([delayed(work.threads_of)(*names)]), [["3", "3"]])


if __name__ == "__main__":
    unittest.main()
