"""A model without torch."""

import sys

import numpy as np


class Texts:
    """Joins texts, and counts what it has seen."""

    def __call__(self, texts, number):
        joined = np.array([b" ".join(row) for row in texts.tolist()], dtype=object)
        sums = number.sum(axis=1)
        return {"joined": joined.reshape(-1, 1), "sums": sums, "torch": np.full(1, "torch" in sys.modules)}
