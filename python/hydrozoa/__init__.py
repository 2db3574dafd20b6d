"""Many complete CPython interpreters in one process, from Python."""

from ._executor import BrokenInterpreterPool, Executor
from ._interpreter import ExecutionFailed, Interpreter, InterpreterError
from ._library import BrokenInterpreter, Error, Interrupted
from ._pool import RemoteError

__all__ = [
    "BrokenInterpreter", "BrokenInterpreterPool", "Error", "ExecutionFailed", "Executor", "Interpreter", "InterpreterError",
    "Interrupted", "RemoteError",
]
