"""Pieces of work that interpreters, threads, processes and prefork children are compared by.

Each module has `make(folder)`. It returns a function `call(n)`, for `n` from 0 to CALLS - 1, which does the work on the n-th
input and returns a digest of the result. Work that needs files, such as weights, also has `prepare(folder)`. It writes them once,
before the contenders start. All contenders run the same code on the same files.
"""

import hashlib

# How many inputs each piece of work has.
CALLS = 8

# The size of a digest in bytes.
DIGEST = 16


def digest(*parts):
    """Of bytes and arrays, to the bit."""
    hasher = hashlib.blake2b(digest_size=DIGEST)
    for part in parts:
        hasher.update(part)
    return hasher.digest()
