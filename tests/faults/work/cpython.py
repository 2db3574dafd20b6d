"""Iterators that are nested without end."""

import itertools


def nested(values):
    return itertools.chain.from_iterable(map(nested, values))


list(nested("a"))
