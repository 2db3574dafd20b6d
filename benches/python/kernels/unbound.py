"""Functions and global names of a module that also imports a name which is never used: it stays unbound with a profile."""

from kernels.rare import explain

STEP, MODULUS = 7, 1_000_003


def _next(number):
    return (number * STEP + len(NAMES)) % MODULUS


NAMES = ("one", "two", "three")


def run():
    number = 1
    for _ in range(300_000):
        number = _next(number)
        if number < 0:
            return explain(number)
    return repr(number)
