"""The programs that the documents show."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[3]


class Manual(unittest.TestCase):
    def run_programs(self, page, expected):
        programs = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
        printed = []
        for program in programs:
            if "import hydrozoa" not in program:
                continue
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "program.py"
                file.write_text(program)
                done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            printed.append(done.stdout)
        self.assertEqual(printed, expected)

    def test_the_programs_of_the_manual_print_what_they_should(self):
        self.run_programs("docs/python.md", [
            "[1, 2, 3]\n2000000.0\n", "CrashedInterpreter 1\n", "[0 2 4 6]\n", "3.0\n3.0 0.0\n", "[1, 2]\n",
        ])

    def test_the_program_of_the_readme_prints_what_it_should(self):
        self.run_programs("README.md", ["2000000.0\n"])


if __name__ == "__main__":
    unittest.main()
