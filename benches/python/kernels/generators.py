"""Generators: a recursive one, a chain of them, and one that is sent values."""

from itertools import islice

from kernels.trees import balanced

TREE = balanced(0, 4_000)


def _running():
    total = 0
    while True:
        total = (total * 31 + (yield total)) % 1_000_003


def _pairs(values):
    iterator = iter(values)
    for value in iterator:
        yield value, next(iterator, 0)


def run():
    running = _running()
    next(running)
    for _ in range(12):
        for one, other in _pairs(value for value in TREE if value % 5):
            running.send(one * other)
    return repr((running.send(0), list(islice(_pairs(TREE), 3)), sum(1 for _ in TREE)))
