"""Pieces of plain Python, each with `run()`: some tens of milliseconds of work, and a result to compare.

They are written as applications are: from modules that import names of one another. With a profile of imports those names are
bound when they are first used.
"""

KERNELS = (
    "floats",
    "patterns",
    "documents",
    "pickles",
    "objects",
    "texts",
    "containers",
    "generators",
    "failures",
    "methods",
    "unbound",
)
