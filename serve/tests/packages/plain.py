"""Models without torch."""

import sys

import numpy as np

from served_version import VERSION


class Texts:
    """Joins texts, and counts what it has seen."""

    def __call__(self, texts, number):
        joined = np.array([b" ".join(row) for row in texts.tolist()], dtype=object)
        sums = number.sum(axis=1)
        return {"joined": joined.reshape(-1, 1), "sums": sums, "torch": np.full(1, "torch" in sys.modules)}


class Version:
    """The version of the weights, and that of the code."""

    def __init__(self, version):
        self.weight = np.full(4096, version, np.float32)

    def __call__(self, x):
        return np.array([self.weight.mean(), VERSION], np.float32) + 0 * x
