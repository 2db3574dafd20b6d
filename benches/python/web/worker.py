"""The name of the worker that answers. Each response has it as the header `x-worker`, so a client sees which workers it has reached."""

import os

# Children of a preloaded process have the same value, and interpreters of one process the same number of a process.
_own = os.urandom(6).hex()


def name():
    return f"{os.getpid()}-{_own}"
