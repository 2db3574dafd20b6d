"""Private memory of a further worker with numpy and pandas: one of hydrozoa's interpreters, as it is and settled, beside one of
ProcessPoolExecutor's spawned processes. MiB of anonymous pages in this process and its children, after further calls.
"""

import concurrent.futures
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import hydrozoa


def anonymous(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024


def of_all():
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(map(anonymous, ["self", *children]))


def work(_):
    import numpy
    import pandas

    frame = pandas.DataFrame({"key": numpy.arange(1000) % 7, "value": numpy.ones(1000)})
    # Long enough that each worker gets one.
    time.sleep(0.2)
    return float(frame.groupby("key")["value"].sum().sum())


def further(make, settled=False, few=1, many=3):
    """MiB of a further worker."""
    found = {}
    for workers in (few, many):
        with make(workers) as executor:
            for turn in range(6):
                assert list(executor.map(work, range(workers))) == [1000.0] * workers
                if turn == 2 and settled:
                    executor.settle()
            found[workers] = of_all()
    return (found[many] - found[few]) / (many - few)


def main():
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=os.environ.get("HYDROZOA_SETTLE_IN", "/var/tmp")) as folder:
        found = {
            "processes": further(lambda workers: concurrent.futures.ProcessPoolExecutor(workers, mp_context=spawn)),
            "hydrozoa": further(hydrozoa.Executor),
            "hydrozoa, settled": further(lambda workers: hydrozoa.Executor(workers, dense=folder), settled=True),
        }
    for name, memory in found.items():
        share = memory / found["processes"]
        print(f"{name}: {memory:.1f} MiB a further worker with numpy and pandas, {share:.2f} of a process's")


if __name__ == "__main__":
    main()
