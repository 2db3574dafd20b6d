"""Executors beside each other, each with two workers: threads, processes, loky's processes, hydrozoa's interpreters; on CPython 3.14
also its own interpreters, on a free-threaded build its threads.

Calls: microseconds from submit to result, medians. Work: how often one worker's work two workers do in the same time.
What a machine lacks is named, and not measured.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time

# Libraries of each worker work in one thread. They read this when they are loaded.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy

import tasks

WORKERS = 2


WORK = {
    "pure Python": (tasks.count, 300_000, None),
    "pandas groupby": (tasks.group, 200_000, "pandas"),
    "torch inference": (tasks.infer, 64, "torch"),
    "pillow and numpy": (tasks.augment, 512, "PIL"),
}


def executors():
    """Makers of executors by name, and what is missing."""
    processes = multiprocessing.get_context("spawn")
    made, missing = {}, []
    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    made["free threads" if free else "threads"] = concurrent.futures.ThreadPoolExecutor
    made["processes"] = lambda workers: concurrent.futures.ProcessPoolExecutor(workers, mp_context=processes)
    try:
        from joblib.externals.loky import ProcessPoolExecutor

        made["loky"] = ProcessPoolExecutor
    except ImportError:
        missing.append("loky (joblib)")
    try:
        made["CPython's interpreters"] = concurrent.futures.InterpreterPoolExecutor
    except AttributeError:
        missing.append("InterpreterPoolExecutor (CPython 3.14)")
    try:
        import hydrozoa

        made["hydrozoa"] = hydrozoa.Executor
    except ImportError:
        missing.append("hydrozoa")
    return made, missing


def call_time(executor, function, *arguments, repeat):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        executor.submit(function, *arguments).result()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def per_second(executor, workers, function, argument, seconds):
    """Calls per second, with two in each worker's hands."""
    done, begin = 0, time.perf_counter()
    waiting = {executor.submit(function, argument) for _ in range(2 * workers)}
    while time.perf_counter() - begin < seconds:
        finished, waiting = concurrent.futures.wait(waiting, return_when="FIRST_COMPLETED")
        done += len(finished)
        for future in finished:
            future.result()
        waiting |= {executor.submit(function, argument) for _ in finished}
    rate = done / (time.perf_counter() - begin)
    concurrent.futures.wait(waiting)
    return rate


def attempt(measure):
    """A figure, or the error that prevented it."""
    try:
        return measure()
    except Exception as error:
        return type(error).__name__


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all executors, of which the medians count")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of each kind of work")
    parser.add_argument("--free", metavar="PYTHON", help="a free-threaded Python, whose threads are measured in the same rounds")
    parser.add_argument("--round-of-threads", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    made, missing = executors()
    if options.round_of_threads:
        # A line of JSON for the program that has started this one.
        print(json.dumps(measure(dict(list(made.items())[:1]), missing, 1, options.seconds, None)))
        return
    found = measure(made, missing, options.rounds, options.seconds, options.free)
    report(found, missing, options.rounds)


def of_free_threads(python, seconds):
    """The figures of one round of another Python's threads."""
    command = [python, __file__, "--round-of-threads", "--seconds", str(seconds)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def measure(made, missing, rounds, seconds, free):
    """The figures of each kind of executor: what was measured, the kind, and one figure for each round."""
    short, long = numpy.ones(1 << 17), numpy.ones(100_000_000 // 8)
    calls = {
        "no-op": lambda executor: call_time(executor, tasks.nothing, repeat=300),
        "1 MB there and back": lambda executor: call_time(executor, tasks.same, short, repeat=50),
        "100 MB there and back": lambda executor: call_time(executor, tasks.same, long, repeat=3),
    }
    work = {}
    for name, (function, argument, needs) in WORK.items():
        if needs is None or importlib.util.find_spec(needs):
            work[name] = (function, argument)
        else:
            missing.append(needs)
    found = {}
    for turn in range(rounds):
        for kind, make in made.items():
            with make(WORKERS) as executor, make(1) as alone:
                for name, call in calls.items():
                    attempt(lambda: call(executor)) if turn == 0 else None
                    found.setdefault(name, {}).setdefault(kind, []).append(attempt(lambda: call(executor)))
                for name, (function, argument) in work.items():
                    def ratio():
                        for pool in (executor, alone):
                            concurrent.futures.wait([pool.submit(function, argument) for _ in range(8)])
                        one = per_second(alone, 1, function, argument, seconds)
                        return per_second(executor, WORKERS, function, argument, seconds) / one

                    found.setdefault(name, {}).setdefault(kind, []).append(attempt(ratio))
        if free is not None:
            for name, kinds in of_free_threads(free, seconds).items():
                for kind, values in kinds.items():
                    found.setdefault(name, {}).setdefault(kind, []).extend(values)
        print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def report(found, missing, rounds):
    kinds = list(found["no-op"])
    print(f"CPython {sys.version.split()[0]}, {WORKERS} workers, medians of {rounds} rounds")
    if missing:
        print(f"NOT MEASURED: {', '.join(missing)}")
    print("| | " + " | ".join(kinds) + " |")
    print("|---" * (1 + len(kinds)) + "|")
    for name, row in found.items():
        is_time = name not in WORK
        cells = []
        for kind in kinds:
            values = row.get(kind, ["not measured"])
            numbers = [value for value in values if isinstance(value, float)]
            cells.append(f"{statistics.median(numbers):.{0 if is_time else 2}f}" if len(numbers) == len(values) else values[0])
        print(f"| {name}, {'µs' if is_time else 'times one worker'} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
