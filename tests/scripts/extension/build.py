"""Builds the extension with torch.utils.cpp_extension: build.py FOLDER prints the path of the library."""

import os
import sys

from torch.utils import cpp_extension


def main():
    (folder,) = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    # torch looks for ninja on PATH; the wheel installs it beside this Python.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "areas_extension.cpp")
    module = cpp_extension.load("areas_extension", [source], build_directory=folder, extra_cflags=["-O1"])
    print(module.__file__)


if __name__ == "__main__":
    main()
