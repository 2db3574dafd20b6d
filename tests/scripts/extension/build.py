"""Builds the extension with torch.utils.cpp_extension: build.py FOLDER prints the path of the library."""

import contextlib
import fcntl
import os
import sys

from torch.utils import cpp_extension


def main():
    (folder,) = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    # torch looks for ninja on PATH; the wheel installs it beside this Python.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "areas_extension.cpp")
    with open(os.path.join(folder, "turn"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        # torch's own lock is a file. A build that was killed has left it, and torch would wait for its end for ever.
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, "lock"))
        module = cpp_extension.load("areas_extension", [source], build_directory=folder, extra_cflags=["-O1"])
    print(module.__file__)


if __name__ == "__main__":
    main()
