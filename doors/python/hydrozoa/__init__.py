"""Many complete CPython interpreters in one process, from Python."""

from _hydrozoa_queue import Queue, QueueEmpty, QueueError, QueueFull, QueueNotFoundError, create_queue

from ._executor import BrokenInterpreterPool, Executor, load_package
from ._interpreter import ExecutionFailed, Interpreter, InterpreterError
from ._library import BrokenInterpreter, CrashedInterpreter, Error, Interrupted
from ._pool import RemoteError
from ._shared import Package, Shared

__all__ = [
    "BrokenInterpreter", "BrokenInterpreterPool", "CrashedInterpreter", "Error", "ExecutionFailed", "Executor", "Interpreter",
    "InterpreterError", "Interrupted", "Package", "Queue", "QueueEmpty", "QueueError", "QueueFull", "QueueNotFoundError",
    "RemoteError", "Shared", "create_queue", "load_package",
]
