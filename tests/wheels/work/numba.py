"""compiled functions, parallel loops, callbacks in C, typed lists, a typing error"""

import numba
import numpy as np
from numba import cfunc, njit, prange, typed, vectorize


@njit
def sieve(n):
    flags = np.ones(n, np.bool_)
    flags[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if flags[i]:
            flags[i * i :: i] = False
    return flags.nonzero()[0]


@njit(parallel=True)
def sums(values):
    result = np.zeros(values.shape[0])
    for i in prange(values.shape[0]):
        result[i] = (values[i] ** 2).sum()
    return result


@vectorize(["float64(float64, float64)"])
def mixed(a, b):
    return a * np.sin(b) if a > 0 else b


@cfunc("float64(float64)")
def square(x):
    return x * x


@njit
def listed(n):
    values = typed.List()
    for i in range(n):
        values.append(i * 1.5)
    return sum(values)


@njit
def objects(text):
    return {word: len(word) for word in text.split()}


def work(tell):
    tell("lambda", njit(lambda x: x + 1)(1))
    tell("sieve", sieve(20_000))
    values = np.arange(4000.0).reshape(40, 100)
    tell("parallel", sums(values))
    tell("vectorize", mixed(values - 1000, values / 7))
    tell("cfunc", square.ctypes(1.5))
    tell("list", listed(1000))
    tell("strings", sorted(objects("one three eleven größe").items()))
    tell("types", str(numba.typeof(values)))
    tell("signatures", [str(one) for one in sums.signatures])
    try:
        njit(lambda x: x + "a")(1)
    except numba.TypingError as error:
        tell("error", "No implementation" in str(error))
