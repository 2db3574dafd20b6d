"""The rivals of `workloads`: plain python processes that do a piece of work.

    workload.py NAME FOLDER              one process
    workload.py NAME FOLDER --prefork N  makes the work ready, then gc.freeze() and N forked children
    workload.py NAME FOLDER --prepare    writes the files of the work to FOLDER, and what plain python computes with them

`contender.py` says which orders they take.
"""

import argparse
import importlib
import os

import workloads
from contender import answer


class Workload:
    def __init__(self, name, folder):
        self.work = importlib.import_module(f"workloads.{name}").make(folder)
        with open(expected_in(folder, name), "rb") as file:
            digests = file.read()
        self.expected = [digests[at : at + workloads.DIGEST] for at in range(0, len(digests), workloads.DIGEST)]

    def call(self, index):
        return self.work(index % workloads.CALLS)


def expected_in(folder, name):
    return os.path.join(folder, f"{name}.expected")


def prepare(name, folder):
    module = importlib.import_module(f"workloads.{name}")
    if hasattr(module, "prepare"):
        module.prepare(folder)
    call = module.make(folder)
    with open(expected_in(folder, name), "wb") as file:
        file.write(b"".join(call(n) for n in range(workloads.CALLS)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("folder")
    parser.add_argument("--prefork", type=int, default=0)
    parser.add_argument("--prepare", action="store_true")
    arguments = parser.parse_args()
    if arguments.prepare:
        return prepare(arguments.name, arguments.folder)
    workload = Workload(arguments.name, arguments.folder)
    workload.call(0)
    answer({arguments.name: workload}, arguments.prefork)


if __name__ == "__main__":
    main()
