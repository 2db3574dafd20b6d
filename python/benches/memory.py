"""Private memory of a further worker with numpy and pandas: one of hydrozoa's interpreters beside one of ProcessPoolExecutor's
spawned processes. MiB of pages that one process alone has, in this process and its children.
"""

import concurrent.futures
import multiprocessing
import os
import time
from pathlib import Path

import hydrozoa


def private(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def of_all():
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(map(private, ["self", *children]))


def work(_):
    import numpy
    import pandas

    frame = pandas.DataFrame({"key": numpy.arange(1000) % 7, "value": numpy.ones(1000)})
    # Long enough that each worker gets one.
    time.sleep(0.2)
    return float(frame.groupby("key")["value"].sum().sum())


def further(make, few=1, many=3):
    """MiB of a further worker."""
    found = {}
    for workers in (few, many):
        with make(workers) as executor:
            for _ in range(3):
                assert list(executor.map(work, range(workers))) == [1000.0] * workers
            found[workers] = of_all()
    return (found[many] - found[few]) / (many - few)


def main():
    spawn = multiprocessing.get_context("spawn")
    makers = {
        "processes": lambda workers: concurrent.futures.ProcessPoolExecutor(workers, mp_context=spawn),
        "hydrozoa": hydrozoa.Executor,
    }
    found = {name: further(make) for name, make in makers.items()}
    for name, memory in found.items():
        print(f"{name}: {memory:.1f} MiB a further worker with numpy and pandas")
    print(f"hydrozoa's is {found['hydrozoa'] / found['processes']:.2f} of a process's")


if __name__ == "__main__":
    main()
