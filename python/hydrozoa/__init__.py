"""Many complete CPython interpreters in one process, from Python."""

from ._executor import BrokenInterpreterPool, Executor
from ._interpreter import RemoteError
from ._library import BrokenInterpreter, Error, Interrupted

__all__ = ["BrokenInterpreter", "BrokenInterpreterPool", "Error", "Executor", "Interrupted", "RemoteError"]
