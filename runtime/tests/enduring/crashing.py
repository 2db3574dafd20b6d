"""The interpreter that crashes: its work before, and kinds of crashes that Python code has."""

import ctypes
import os
import sys
import threading

library = ctypes.CDLL(LIBRARY)
kept = []


def reads_nothing():
    ctypes.string_at(0)


def aborts():
    os.abort()


def recurses():
    import functools

    sys.setrecursionlimit(10**9)

    def call():
        return functools.reduce(lambda a, b: call(), [1, 2])

    call()


def crashes_on_a_thread_of_python():
    thread = threading.Thread(target=library.crashes, args=(0,))
    thread.start()
    thread.join()


def crashes_beside_others():
    """Others of the interpreter's threads wait, compute and sleep meanwhile."""
    import time

    def computes():
        while True:
            pass

    for target in (threading.Event().wait, computes, lambda: time.sleep(1000)):
        threading.Thread(target=target, daemon=True).start()
    time.sleep(0.01)
    library.crashes(0)


def crashes_in_an_array():
    import numpy

    array = numpy.frombuffer((ctypes.c_char * (1 << 20)).from_address(1 << 12), dtype=numpy.uint8)
    array.sum()


def crashes_in_a_tensor():
    import torch

    torch.frombuffer((ctypes.c_char * (1 << 20)).from_address(1 << 12), dtype=torch.uint8).sum()


def works(packages):
    """Takes memory of each kind, and keeps some. The right result is 7."""
    kept.append([bytes(1000) for _ in range(1000)])
    kept.append(bytearray(3 << 20))
    if packages >= 1:
        import numpy

        kept.append(numpy.ones((300, 300)) @ numpy.ones((300, 300)))
    if packages >= 2:
        import torch

        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten())
        model(torch.ones(2, 3, 16, 16)).sum().backward()
        kept.append(model)
    return 7


def crash(kind):
    function = globals().get(kind)
    return function() if function else getattr(library, kind)(0)
