"""The rivals of density: workers that are processes or threads with stock torch, started one after the other.

    density.py MANIFEST MODEL --prefork     loads the model, then gc.freeze() and a forked child for each worker
    density.py MANIFEST MODEL --spawn       a new process for each worker
    density.py MANIFEST MODEL --threads     loads the model, then a thread for each worker; only without the GIL

They take the orders of orders.py: `grow` starts workers, and waits for the first output of each; `call` has N threads call the
workers in turn; `each` calls each worker once. Latencies are what a caller sees: those of the way to a worker are included.
"""

import argparse
import concurrent.futures
import functools
import gc
import itertools
import json
import os
import queue
import struct
import subprocess
import sys
import threading
import time

from orders import answer_orders, ready

CALL = struct.Struct("<q")
REPLY = struct.Struct("<?d")


class Model:
    def __init__(self, manifest, name):
        # Not in the process that only starts others: it has no torch.
        import torch
        import worker

        torch.set_num_threads(1)
        with open(manifest) as file:
            entry = next(entry for entry in json.load(file) if entry["name"] == name)
        self.loaded = worker.Model(entry)

    def is_right(self, index):
        loaded = self.loaded
        return loaded.call(index) == loaded.expected[index % len(loaded.expected)]


def work(model, read, write):
    """Answers calls until the pipe ends. The answer has the processor time so far."""
    while data := os.read(read, CALL.size):
        right = model.is_right(*CALL.unpack(data))
        os.write(write, REPLY.pack(right, time.process_time()))


class Worker:
    """A process, as its owner sees it."""

    def __init__(self, start):
        call_read, self.write = os.pipe()
        self.read, reply_write = os.pipe()
        self.lock = threading.Lock()
        self.process = start(self, call_read, reply_write)
        os.close(call_read)
        os.close(reply_write)

    def call(self, index):
        with self.lock:
            os.write(self.write, CALL.pack(index))
            data = os.read(self.read, REPLY.size)
        if not data:
            sys.exit("a worker has ended")
        return REPLY.unpack(data)


class Thread:
    """A thread of this process, as its owner sees it."""

    def __init__(self, model):
        self.lock = threading.Lock()
        self.calls, self.replies = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self.work, args=[model], daemon=True).start()

    def work(self, model):
        while True:
            index = self.calls.get()
            try:
                self.replies.put(model.is_right(index))
            except Exception as error:
                self.replies.put(error)

    def call(self, index):
        with self.lock:
            self.calls.put(index)
            right = self.replies.get()
        if isinstance(right, Exception):
            sys.exit(f"a worker has failed: {right!r}")
        return right, time.process_time()


def fork(model, workers):
    def start(worker, read, write):
        child = os.fork()
        if child == 0:
            # A pipe ends with the last process that could write to it.
            for other in [*workers, worker]:
                os.close(other.read)
                os.close(other.write)
            work(model, read, write)
            os._exit(0)
        return child

    return start


def spawn(arguments):
    def start(_, read, write):
        command = [sys.executable, __file__, arguments.manifest, arguments.model, "--worker", str(read), str(write)]
        return subprocess.Popen(command, pass_fds=(read, write))

    return start


def serve(workers, seconds, threads):
    numbers, latencies, wrong, failed = itertools.count(), [], [], []
    begin = time.perf_counter()

    def caller():
        try:
            while time.perf_counter() < begin + seconds:
                index = next(numbers)
                start = time.perf_counter()
                right, _ = workers[index % len(workers)].call(index)
                latencies.append((time.perf_counter() - start) * 1e6)
                if not right:
                    wrong.append(index)
        except (SystemExit, OSError) as error:
            failed.append(error)

    callers = [threading.Thread(target=caller) for _ in range(threads)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    if failed:
        sys.exit(str(failed[0]))
    return {"latencies_us": latencies, "wrong": len(wrong), "seconds": time.perf_counter() - begin}


def each(workers):
    latencies, wrong, begin = [], 0, time.perf_counter()
    for index, worker in enumerate(workers):
        start = time.perf_counter()
        right, _ = worker.call(index)
        latencies.append((time.perf_counter() - start) * 1e6)
        wrong += not right
    return {"latencies_us": latencies, "wrong": wrong, "seconds": time.perf_counter() - begin}


def grow(workers, new, count):
    """A worker's processor time is its process's until its first output, and that of this process meanwhile for a thread."""
    before = time.process_time()
    for _ in range(count):
        workers.append(new())
    grown = workers[-count:]
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        answers = list(threads.map(lambda worker: worker.call(0), grown))
    if not all(right for right, _ in answers):
        sys.exit("the first output differs")
    if isinstance(grown[0], Thread):
        cpu_seconds = time.process_time() - before
    else:
        cpu_seconds = sum(cpu_seconds for _, cpu_seconds in answers)
    return {"effort": {"cpu_us": round(cpu_seconds * 1e6)}}


def without_gil(model):
    if sys._is_gil_enabled():
        sys.exit("the GIL is on: this contender needs a free-threaded CPython, and PYTHON_GIL=0")
    return lambda: Thread(model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("manifest")
    parser.add_argument("model")
    parser.add_argument("--prefork", action="store_true")
    parser.add_argument("--spawn", action="store_true")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--worker", type=int, nargs=2)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(Model(arguments.manifest, arguments.model), *arguments.worker)
    all_workers = []
    if arguments.spawn:
        new = functools.partial(Worker, spawn(arguments))
    else:
        model = Model(arguments.manifest, arguments.model)
        for index in range(3):
            model.is_right(index)
        if arguments.threads:
            new = without_gil(model)
        else:
            gc.collect()
            gc.freeze()
            new = functools.partial(Worker, fork(model, all_workers))
    ready()
    answer_orders(
        grow=lambda workers: grow(all_workers, new, workers),
        call=lambda seconds, threads, **_: serve(all_workers, seconds, threads),
        each=lambda: each(all_workers),
    )


if __name__ == "__main__":
    main()
