"""Executors beside each other, each with two workers: threads, processes, loky's processes, hydrozoa's interpreters; on CPython 3.14
also its own interpreters, on a free-threaded build its threads.

Calls: microseconds from submit to result, medians. Work: how often one worker's work two workers do in the same time.
What a machine lacks is named, and not measured.
"""

import argparse
import concurrent.futures
import importlib.util
import io
import multiprocessing
import statistics
import sys
import time

import numpy

WORKERS = 2


def nothing():
    pass


def same(array):
    return array


def count(n):
    total = 0
    for value in range(n):
        total += value * value % 7
    return total


frame = None


def group(rows):
    global frame
    import pandas

    if frame is None:
        random = numpy.random.default_rng(0)
        frame = pandas.DataFrame({"key": random.integers(0, 1000, rows), "value": random.random(rows)})
    return float(frame.groupby("key")["value"].agg(["mean", "std", "max"]).to_numpy().sum())


model = None


def infer(rows):
    global model
    import torch

    if model is None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        layers = [layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
        model = torch.nn.Sequential(*layers)
    with torch.inference_mode():
        return float(sum(model(torch.ones(rows, 256)).sum() for _ in range(20)))


picture = None


def augment(side):
    global picture
    from PIL import Image

    if picture is None:
        file = io.BytesIO()
        Image.fromarray(numpy.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=numpy.uint8)).save(file, "JPEG")
        picture = file.getvalue()
    array = numpy.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), dtype=numpy.float32) / 255
    array = array[:, ::-1] if side % 2 else array[::-1]
    return float(((array - array.mean((0, 1))) / array.std((0, 1))).sum())


WORK = {
    "pure Python": (count, 300_000, None),
    "pandas groupby": (group, 200_000, "pandas"),
    "torch inference": (infer, 64, "torch"),
    "pillow and numpy": (augment, 512, "PIL"),
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
    """A figure, or why there is none."""
    try:
        return measure()
    except Exception as error:
        return type(error).__name__


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all executors, of which the medians count")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of each kind of work")
    options = parser.parse_args()
    made, missing = executors()
    short, long = numpy.ones(1 << 17), numpy.ones(100_000_000 // 8)
    calls = {
        "no-op": lambda executor: call_time(executor, nothing, repeat=300),
        "1 MB there and back": lambda executor: call_time(executor, same, short, repeat=50),
        "100 MB there and back": lambda executor: call_time(executor, same, long, repeat=3),
    }
    work = {}
    for name, (function, argument, needs) in WORK.items():
        if needs is None or importlib.util.find_spec(needs):
            work[name] = (function, argument)
        else:
            missing.append(needs)
    found = {}
    for turn in range(options.rounds):
        for kind, make in made.items():
            with make(WORKERS) as executor, make(1) as alone:
                for name, measure in calls.items():
                    attempt(lambda: measure(executor)) if turn == 0 else None
                    found.setdefault((name, kind), []).append(attempt(lambda: measure(executor)))
                for name, (function, argument) in work.items():
                    def ratio():
                        for pool in (executor, alone):
                            concurrent.futures.wait([pool.submit(function, argument) for _ in range(8)])
                        one = per_second(alone, 1, function, argument, options.seconds)
                        return per_second(executor, WORKERS, function, argument, options.seconds) / one

                    found.setdefault((name, kind), []).append(attempt(ratio))
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print(f"CPython {sys.version.split()[0]}, {WORKERS} workers, medians of {options.rounds} rounds")
    if missing:
        print(f"NOT MEASURED: {', '.join(missing)}")
    print("| | " + " | ".join(made) + " |")
    print("|---" * (1 + len(made)) + "|")
    for name in [*calls, *work]:
        row = []
        for kind in made:
            values = found[name, kind]
            numbers = [value for value in values if isinstance(value, float)]
            row.append(f"{statistics.median(numbers):.{0 if name in calls else 2}f}" if len(numbers) == len(values) else values[0])
        unit = "µs" if name in calls else "times one worker"
        print(f"| {name}, {unit} | " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
