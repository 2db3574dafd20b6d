"""Memory that goes without a copy, and how long it stays."""

import gc
import os
import select
import time
import unittest

import hydrozoa
import numpy
import work
from hydrozoa import _memory


def wait(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


class Borrowed(unittest.TestCase):
    def setUp(self):
        self.executor = hydrozoa.Executor(1)
        self.addCleanup(self.executor.shutdown)

    def call(self, function, *arguments):
        return self.executor.submit(function, *arguments).result()

    def test_an_argument_is_the_caller_s_memory_and_read_only(self):
        array = numpy.arange(1 << 16, dtype=float)
        self.assertEqual(self.call(work.address, array), array.ctypes.data)
        self.assertFalse(self.call(work.is_writable, array))
        self.assertTrue(array.flags.writeable)

    def test_a_result_is_the_interpreter_s_memory_and_writable(self):
        array, address = self.call(work.ones, 1 << 16)
        self.assertEqual(array.ctypes.data, address)
        array[0] = 5
        self.assertEqual(array.sum(), (1 << 16) + 4)

    def test_a_result_outlives_its_executor(self):
        array, _ = self.call(work.ones, 1 << 20)
        self.executor.shutdown()
        self.executor = None
        gc.collect()
        self.assertEqual(array.sum(), 1 << 20)

    def test_an_argument_that_is_kept_outlives_the_caller_s_reference_and_is_given_back_then(self):
        memory = bytearray(8 * 1000)
        array = numpy.frombuffer(memory)
        array[:] = 3
        address = array.ctypes.data
        self.assertEqual(self.call(work.keep, array), address)
        del array
        self.assertEqual(self.call(work.kept_sum), 3000.0)
        with self.assertRaises(BufferError):
            memory.append(0)
        self.call(work.forget)
        self.assertTrue(wait(lambda: not _memory._lent), _memory._lent)
        memory.append(0)

    def test_arguments_are_given_back_when_their_interpreter_ends(self):
        self.call(work.keep, numpy.ones(1 << 16))
        self.executor.shutdown()
        self.executor = None
        gc.collect()
        self.assertTrue(wait(lambda: not _memory._lent), _memory._lent)

    def test_results_that_are_dropped_are_freed_without_another_call(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        self.addCleanup(os.close, reader)

        def freed(count):
            """Whether so many arrays have said that they end."""
            told = b""
            while len(told) < count and select.select([reader], [], [], 30)[0]:
                told += os.read(reader, count)
            return len(told) == count

        results = [self.call(work.told, 1 << 12, writer) for _ in range(5)]
        del results[1]
        self.assertTrue(freed(1))
        results.clear()
        self.assertTrue(freed(4))
        # One that nobody has asked for.
        self.executor.submit(work.told, 1 << 12, writer)
        self.assertTrue(freed(1))
        # The worker runs a call meanwhile, and frees it then.
        result = self.call(work.told, 1 << 12, writer)
        sleep = self.executor.submit(time.sleep, 0.2)
        while not sleep.running():
            time.sleep(0.001)
        del result
        self.assertTrue(freed(1))
        sleep.result()
        # The workers are gone, and another result keeps the interpreter.
        results = [self.call(work.told, 1 << 12, writer) for _ in range(2)]
        self.executor.shutdown()
        results.pop()
        self.assertTrue(freed(1))
        self.assertEqual(results[0].sum(), 1 << 12)

    def test_bytes_of_all_kinds_come_back_as_they_went(self):
        long = bytes(range(256)) * 1000
        for value in (b"", b"short", long, bytearray(long), bytearray(), [long, long], {"a": (1, long)}):
            self.assertEqual(self.call(work.same, value), value)
            self.assertIs(type(self.call(work.same, value)), type(value))
        for view in (memoryview(long), memoryview(long)[::2], memoryview(numpy.ones((3, 4)))):
            back = self.call(work.same, view)
            self.assertEqual((back.tobytes(), back.format, back.shape), (view.tobytes(), view.format, view.shape))

    def test_arrays_of_all_layouts_come_back_as_they_went(self):
        square = numpy.arange(10000.0).reshape(100, 100)
        arrays = [
            square, square.T, square[::2, 1:50:3], square[::-1], square[:0], numpy.array(3.5), square > 50,
            square.astype(complex), numpy.array(["a", "bc"]), numpy.array([{}, 1], dtype=object),
            numpy.zeros(5, dtype=[("a", int), ("b", float)]), numpy.asfortranarray(square), numpy.ma.masked_less(square, 5),
            numpy.datetime64("2026-01-01") + numpy.arange(5),
        ]
        for array in arrays:
            back = self.call(work.same, array)
            self.assertEqual((back.dtype, back.shape), (array.dtype, array.shape))
            self.assertTrue(numpy.array_equal(back, array) or str(back) == str(array))

    def test_memory_does_not_grow_with_calls(self):
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        array = numpy.ones(1 << 20)
        for _ in range(5):
            self.call(numpy.negative, array)
        gc.collect()
        before = resident()
        for _ in range(50):
            self.call(numpy.negative, array)
        gc.collect()
        self.assertLess(resident() - before, 4 * array.nbytes)


if __name__ == "__main__":
    unittest.main()
