"""Many tasks in one executor, then many executors in one process. Memory, threads and descriptors must not grow.

Arguments: the number of tasks and the number of executors, without which it is the long form.
"""

import collections
import gc
import os
import random
import sys
from concurrent.futures import CancelledError

import numpy

import hydrozoa

BLOCK = 1000
LONG = numpy.ones(200_000)
# How much a program may grow after its first tenth, in MiB.
GAIN = 16


def private():
    """MiB that this process alone has."""
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1024


class Footprint:
    """Counts that must not grow beyond the first state after a while."""

    def __init__(self):
        self.first = None

    def look(self, words, warm):
        gc.collect()
        now = (private(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")))
        print(f"{words}: {now[0]:.1f} MiB private, {now[1]} threads, {now[2]} descriptors", flush=True)
        if self.first is None:
            self.first = now if warm else None
        elif now[0] > self.first[0] + GAIN or now[1] > self.first[1] or now[2] > self.first[2]:
            raise SystemExit(f"grown from {self.first} to {now}")


def submit(executor, number):
    """A task of some kind, and a check of its result."""
    kind = random.randrange(100)
    if kind < 60:
        return executor.submit(pow, number, 2), lambda value: value == number * number
    if kind < 75:
        text = bytes(random.randrange(100_000))
        return executor.submit(len, text), lambda value: value == len(text)
    if kind < 85:
        return executor.submit(int, "x"), None
    if kind < 95:
        rows = LONG[: random.randrange(1, len(LONG))]
        return executor.submit(numpy.negative, rows), lambda value: value[0] == -1 and len(value) == len(rows)
    future = executor.submit(pow, 3, 3)
    future.cancel()
    return future, lambda value: value == 27


def finish(future, is_right):
    try:
        value = future.result(120)
    except ValueError:
        assert is_right is None
        return "exceptions"
    except CancelledError:
        return "cancelled"
    assert is_right is not None and is_right(value), value
    return "values"


def many_tasks(count):
    state, ends = Footprint(), collections.Counter()
    blocks = max(1, count // BLOCK)
    with hydrozoa.Executor(2) as executor:
        for block in range(1, blocks + 1):
            tasks = [submit(executor, number) for number in range(BLOCK)]
            ends.update(finish(*task) for task in tasks)
            del tasks
            if block % max(1, blocks // 20) == 0:
                state.look(f"{block * BLOCK} tasks", block >= blocks / 10)
    print(dict(ends))
    assert sum(ends.values()) == blocks * BLOCK


def many_executors(count):
    state = Footprint()
    for number in range(1, count + 1):
        with hydrozoa.Executor(2) as executor:
            assert list(executor.map(abs, range(-5, 0))) == [5, 4, 3, 2, 1]
            assert executor.submit(numpy.negative, LONG).result()[0] == -1
        if number % max(1, count // 10) == 0:
            state.look(f"{number} executors", number >= count / 10)


if __name__ == "__main__":
    tasks, executors = map(int, sys.argv[1:]) if len(sys.argv) > 1 else (1_000_000, 200)
    random.seed(1)
    many_tasks(tasks)
    many_executors(executors)
