"""Interpreters of another Python than the program's."""

import sys
import unittest
from pathlib import Path

import hydrozoa
import work


def another():
    """The prefix of another Python with a shared library, beside that of the program's; None if the machine has none."""
    for library in sorted(Path(sys.base_prefix).parent.glob("*/lib/libpython3.1[0-9].so.1.0")):
        if library.name != f"libpython3.{sys.version_info[1]}.so.1.0":
            return str(library.parents[1])
    return None


class AnotherPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.python = another()
        if cls.python is None:
            words = f"THIS MACHINE HAS NO OTHER PYTHON BESIDE {sys.base_prefix}: ITS INTERPRETERS WERE NOT TRIED"
            print(words, flush=True)
            raise unittest.SkipTest(words)
        cls.interpreter = hydrozoa.Interpreter(python=cls.python)
        cls.addClassCleanup(cls.interpreter.close)

    def test_it_has_its_own_standard_library_and_its_own_packages_first(self):
        version, file, path = self.interpreter.call(work.python_here)
        self.assertNotEqual(version, sys.version_info[:2])
        self.assertTrue(file.startswith(self.python), file)
        own = Path(hydrozoa.__file__).parents[1]
        self.assertNotIn(str(Path(sys.base_prefix, f"lib/python3.{sys.version_info[1]}")), path)
        # The program's packages come last, and the folder of its modules first.
        self.assertEqual((path[-1], path[0]), (str(own), sys.path[0]))

    def test_code_of_the_program_s_python_is_refused(self):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        with self.assertRaisesRegex(hydrozoa.ExecutionFailed, f"is code of Python {version}, and this is .* put it into a module"):
            self.interpreter.call(lambda: 1)
        self.assertEqual(self.interpreter.call(work.add, 1, 2), 3)


if __name__ == "__main__":
    unittest.main()
