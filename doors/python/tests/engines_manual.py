"""The programs of docs/python.md that need Dask or Ray."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/python.md"
PRINTED = ["(0, 1, 2)\n", "[0.0, 1000.0, 2000.0]\n"]


def main():
    programs = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(programs) == len(PRINTED), len(programs)
    for program, printed in zip(programs, PRINTED):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "program.py"
            file.write_text(program)
            done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        assert done.stdout == printed, done.stdout
    print(f"{len(programs)} programs print what they should")


if __name__ == "__main__":
    main()
