"""Objects that all interpreters of an executor have, and packages."""

import gc
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import hydrozoa
import numpy
import queue_work
from hydrozoa import _memory
from test_memory import wait


class Shared(unittest.TestCase):
    def setUp(self):
        self.executor = hydrozoa.Executor(2)
        self.addCleanup(self.executor.shutdown)

    def places(self, function, *arguments, interpreters=2):
        """The values that its calls return, once each interpreter has run some."""
        found = set()
        wait(lambda: found.update(self.executor.map(function, *[[one] * 4 for one in arguments])) or len(found) == interpreters)
        return found

    def test_a_shared_object_is_called_on_the_executor_s_interpreters(self):
        weights = numpy.arange(6.0).reshape(3, 2)
        model = queue_work.Model(weights)
        shared = self.executor.share(model)
        rows = numpy.ones((4, 3))
        self.assertTrue(numpy.array_equal(shared(rows, bias=1), model(rows, bias=1)))
        self.assertTrue(numpy.array_equal(self.executor.submit(shared, rows).result(), model(rows)))
        for output in self.executor.map(shared, [rows] * 8, chunksize=2):
            self.assertTrue(numpy.array_equal(output, model(rows)))

    def test_its_memory_is_in_one_place(self):
        array = numpy.arange(1000.0)
        shared = self.executor.share(queue_work.WeightsAddress(array))
        places = self.places(shared, None)
        self.assertEqual({address for _, address in places}, {array.ctypes.data})
        self.assertEqual(len(places), 2)

    def test_a_function_gets_the_copy(self):
        array = numpy.arange(1000.0)
        shared = self.executor.share({"array": array})
        places = self.places(queue_work.where, shared)
        self.assertEqual(({address for _, address in places}, len(places)), ({array.ctypes.data}, 2))
        self.assertIs(self.executor.submit(queue_work.put, _List(), shared).result().items[0], shared)

    def test_a_shared_object_lives_on_its_way_and_gives_its_memory_back(self):
        self.assertTrue(wait(lambda: not _memory._lent))
        array = numpy.arange(1000.0)
        self.assertEqual(self.executor.submit(self.executor.share(queue_work.WeightsAddress(array))).result()[1], array.ctypes.data)

        def is_back():
            gc.collect()
            list(self.executor.map(queue_work.collect, range(4)))
            return not _memory._lent

        self.assertTrue(wait(is_back), _memory._lent)

    def test_copies_are_dropped_and_made_again(self):
        array = numpy.arange(1000.0)
        shared = self.executor.share(queue_work.WeightsAddress(array))
        before = self.places(shared, None)
        shared.unload()
        self.assertEqual(self.places(shared, None), before)
        shared.close()
        shared.close()
        for use in (shared, shared.unload):
            self.assertRaisesRegex(hydrozoa.Error, "closed", use)
        self.assertRaisesRegex(hydrozoa.Error, "closed", self.executor.submit, shared)

    def test_what_an_interpreter_keeps_of_a_closed_one_says_so(self):
        with hydrozoa.Executor(1) as executor, executor.share(queue_work.WeightsAddress(numpy.ones(3))) as shared:
            executor.submit(queue_work.keep, shared).result()
            shared.close()
            with self.assertRaisesRegex(LookupError, "nobody has the movable"):
                executor.submit(queue_work.call_kept).result()

    def test_a_closed_executor_ends_what_it_shares(self):
        shared = self.executor.share(queue_work.WeightsAddress(numpy.ones(3)))
        shared(None)
        pool = shared._pool
        self.executor.shutdown()
        self.assertIsNone(pool._owned)
        self.assertRaisesRegex(hydrozoa.Error, "shut down", shared, None)
        self.assertRaisesRegex(RuntimeError, "shut down", self.executor.share, 1)
        self.assertRaisesRegex(RuntimeError, "shut down", self.executor.load_package, "a")

    def test_what_cannot_be_moved_is_refused_with_its_exception(self):
        self.assertRaises(TypeError, self.executor.share, sys.stdout.buffer)
        self.assertRaises(LookupError, self.executor.share, queue_work.Nowhere())
        self.assertRaisesRegex(hydrozoa.Error, "not again", self.executor.share, queue_work.OnlyOnce())
        self.assertEqual(self.executor.share(queue_work.scale)(2, 3), (os.getpid(), 6))

    def test_a_shared_object_does_not_go_to_another_process(self):
        data = pickle.dumps(self.executor.share(queue_work.scale))
        program = "import hydrozoa, pickle, sys; pickle.load(sys.stdin.buffer)"
        done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, timeout=60)
        self.assertIn(b"another process", done.stderr)


class _List:
    def __init__(self):
        self.items = []

    def put(self, item):
        self.items.append(item)


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "package.pt"
        with zipfile.ZipFile(self.file, "w") as archive:
            for name, content in {
                ".data/extern_modules": "operator\n",
                "shapes.py": "import operator\n\ndef area(a, b=2):\n    return operator.mul(a, b)\n\nclass Square:\n"
                             "    @staticmethod\n    def sides():\n        return 4\n",
                "data/words.txt": "some wörds",
                "data/numbers.bin": bytes([1, 0, 2]),
                "data/abs.pkl": pickle.dumps(abs),
                "data/area.pkl": b"cshapes\narea\n.",
            }.items():
                archive.writestr(f"package/{name}", content)

    def test_resources_and_modules_of_a_package(self):
        with hydrozoa.Executor(2) as executor, executor.load_package(self.file) as package:
            self.assertEqual(package.load_text("data", "words.txt"), "some wörds")
            self.assertEqual(package.load_binary("data", "numbers.bin"), bytes([1, 0, 2]))
            shapes = package.import_module("shapes")
            self.assertEqual(shapes.area(6, b=7), 42)
            self.assertEqual(list(executor.map(shapes.area, range(4))), [0, 2, 4, 6])
            self.assertEqual(shapes.area, package.import_module("shapes").area)
            self.assertEqual(shapes.Square.sides(), 4)
            with self.assertRaises(AttributeError):
                shapes.volume(1)
            area = package.load_pickle("data", "area.pkl")
            self.assertEqual((area(2, 3), list(executor.map(area, range(3)))), (6, [0, 2, 4]))
            self.assertEqual(package.load_pickle("data", "abs.pkl")(-1), 1)
            with self.assertRaises(ImportError):
                package.import_module("missing")
            with self.assertRaisesRegex(hydrozoa.Error, "missing"):
                package.load_text("data", "missing.txt")
            package.close()
            self.assertRaisesRegex(hydrozoa.Error, "closed", package.load_text, "data", "words.txt")
            self.assertEqual(area(2, 5), 10)

    def test_a_package_has_an_executor_of_its_own(self):
        with hydrozoa.load_package(self.file, 1) as package:
            area = package.load_pickle("data", "area.pkl")
            self.assertEqual(area(3, 3), 9)
        self.assertRaisesRegex(hydrozoa.Error, "shut down", area, 1)
        with self.assertRaises(hydrozoa.Error) as caught:
            hydrozoa.load_package(self.file.with_name("none.pt"), 1)
        self.assertIn("none.pt", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
