"""The functions that the tests call in interpreters: an importable module."""

import os
import sys
import threading
import time

kept = []


def add(a, b=0):
    return a + b


def fail(*args):
    try:
        raise LookupError("the cause")
    except LookupError as cause:
        raise ValueError(*args) from cause


def fail_slowly():
    time.sleep(0.5)
    fail()


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("no pickle")


def fail_unpicklably():
    raise Unpicklable("here")


def sleep_after(path, seconds):
    """Sleeps, and says before by a file that it has begun."""
    open(path, "x").close()
    time.sleep(seconds)


def spin():
    while True:
        pass


def unpicklable():
    return threading.Lock()


def nest():
    import hydrozoa

    return hydrozoa.Executor(1).submit(pid).result()


def pid():
    return os.getpid()


def python_here():
    """The version, a file of the standard library, and the path."""
    import dataclasses

    return sys.version_info[:2], dataclasses.__file__, list(sys.path)


def identity():
    return id(sys)


def keep(array):
    kept.append(array)
    return address(array)


def kept_sum():
    return float(kept[-1].sum())


def forget():
    kept.clear()


def address(array):
    return array.ctypes.data


def is_writable(array):
    return array.flags.writeable


def ones(n):
    import numpy

    array = numpy.ones(n)
    return array, array.ctypes.data


def same(value):
    return value


initialized = None


def initialize(value):
    global initialized
    initialized = value


def get_initialized():
    return initialized


def data_ptr(tensor):
    return tensor.data_ptr()


def tensor(n):
    import torch

    made = torch.ones(n)
    return made, made.data_ptr()


def infer(model, rows):
    import torch

    with torch.no_grad():
        return model(rows)


def where():
    """Which interpreter runs this, and whether it is a copy."""
    return id(sys), "_hydrozoa_worker" in sys.modules


def threads_of(*names):
    return [os.environ.get(name) for name in names]


def nested(values):
    import joblib

    with joblib.parallel_config("hydrozoa", n_jobs=2):
        return joblib.Parallel()(joblib.delayed(abs)(value) for value in values)


def described(array):
    return array.flags.writeable, array.ctypes.data


def of_main(text):
    return eval(text, vars(sys.modules["__main__"]))


def append(items, item):
    items.append(item)


def slow(value):
    time.sleep(0.02)
    return value


def later(value, seconds):
    time.sleep(seconds)
    return value


notes = []


def noted(value, seconds):
    notes.append(value)
    time.sleep(seconds)
    return value


def get_notes():
    return notes


def plus(array, number):
    return array + number


def drop_for_ever(queue):
    """A thread of the interpreter gets what a queue has, and drops it."""
    import numpy

    def drop():
        while True:
            numpy.sum(queue.get())

    threading.Thread(target=drop, daemon=True).start()


def told(count, writer):
    """An array that writes a byte when it ends."""
    import numpy
    import weakref

    array = numpy.ones(count)
    weakref.finalize(array, os.write, writer, b"x")
    return array


def crash(*_):
    """Reads address 0, in C."""
    import ctypes
    ctypes.string_at(0)


def crash_later():
    threading.Timer(0.05, crash).start()


def get_from(queue):
    return queue.get(timeout=10)


def get_and_crash_beside(queue):
    """Crashes while another thread waits for a message."""
    thread = threading.Thread(target=queue.get)
    thread.start()
    time.sleep(0.2)
    crash()
