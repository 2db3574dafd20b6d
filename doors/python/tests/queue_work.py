"""The functions that tests of queues, shared objects and packages call in interpreters: an importable module."""

import gc
import os
import sys
import threading

import hydrozoa

kept = []


def put(queue, *objects):
    for item in objects:
        queue.put(item)
    return queue


def put_array(queue, length):
    import numpy

    array = numpy.arange(float(length))
    queue.put((array, array.ctypes.data))


def get(queue, timeout=None):
    return queue.get(timeout=timeout)


def get_address(queue):
    array = queue.get(timeout=60)
    return array.ctypes.data, array.flags.writeable, float(array.sum())


def pass_on(source, target, count):
    for _ in range(count):
        target.put(source.get(timeout=60), timeout=60)


def produce(queue, name, count):
    for number in range(count):
        queue.put((name, number))
    return count


def consume(queue):
    found = []
    while (item := queue.get(timeout=60)) is not None:
        found.append(item)
    queue.put(None)
    return found


def make(maxsize):
    return hydrozoa.create_queue(maxsize)


def describe(queue):
    return type(queue) is hydrozoa.Queue, queue.id, queue.maxsize, queue == hydrozoa.Queue(queue.id), hash(queue), repr(queue)


def get_caught(queue):
    try:
        queue.get_nowait()
    except hydrozoa.QueueEmpty as error:
        return error


def keep(*values):
    kept.extend(values)


def forget():
    kept.clear()


def get_in_a_thread(queue):
    found = []
    thread = threading.Thread(target=lambda: found.append(queue.get(timeout=60)))
    thread.start()
    thread.join()
    return found


def call_kept():
    return kept[0](None)


def collect(_):
    gc.collect()


def of_kept(index=0):
    return kept[index].qsize()


def where(shared):
    """Which interpreter runs this, and where the shared array lies."""
    return id(sys), shared.object["array"].ctypes.data


def weights(shared):
    """Which interpreter runs this, and where the weights of a shared model lie."""
    return id(sys), shared.object[0].weight.data_ptr()


def scale(array, factor):
    return os.getpid(), array * factor


class Model:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, rows, *, bias=0.0):
        return rows @ self.weights + bias

    def place(self):
        return id(sys), self.weights.ctypes.data


class WeightsAddress:
    """Says where its weights are, and in which interpreter."""

    def __init__(self, weights):
        self.weights = weights

    def __call__(self, *_):
        return id(sys), self.weights.ctypes.data


class Nowhere:
    """Cannot be made where it goes."""

    def __reduce__(self):
        return _refuse, (7,)


class OnlyOnce:
    """Can be loaded, and not pickled in an interpreter."""

    def __reduce__(self):
        if "_hydrozoa_worker" in sys.modules:
            raise TypeError("not again")
        return OnlyOnce, ()


def _refuse(number):
    raise LookupError(number)
