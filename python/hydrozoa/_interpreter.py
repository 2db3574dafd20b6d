"""One interpreter, as PEP 734 has them."""

import itertools
import textwrap
import threading
import traceback
import types
import weakref

from . import _main as main
from ._library import Error
from ._pool import Pool


class InterpreterError(Error):
    """The interpreter is closed, or has work that must end first."""

    status = "HZ_ERROR_IN_USE"


class ExecutionFailed(InterpreterError):
    """Code in the interpreter has raised an exception, which is the cause. `excinfo` describes it: its `type`, its text
    `msg`, and as `formatted` the line that Python ends a traceback with."""

    status = "HZ_ERROR_PYTHON"

    def __init__(self, error):
        formatted = "".join(traceback.format_exception_only(type(error), error)).strip()
        super().__init__(formatted)
        self.excinfo = types.SimpleNamespace(type=type(error), msg=str(error), formatted=formatted)


_numbers = itertools.count(1)


class Interpreter:
    """An interpreter of this process, with a GIL of its own. Any thread may call it, several at once.

    The options are those of `Executor`. The interpreter ends when it is closed, or forgotten.
    """

    def __init__(self, *, python=None, venv=None, torch="auto", import_profile=None, inner_threads=None, settle_in=None):
        self._id = next(_numbers)
        self._pool = Pool(
            1, python=python, venv=venv, torch=torch, import_profile=import_profile, inner_threads=inner_threads,
            settle_in=settle_in,
        )
        self._lock = threading.Lock()
        # A session of each thread that calls.
        self._own = threading.local()
        self._sessions = weakref.WeakSet()
        self._running = 0
        self._is_closed = False
        self._session()

    def __repr__(self):
        return f"Interpreter({self._id})"

    @property
    def id(self):
        """A number that no other interpreter of this process has."""
        return self._id

    def is_running(self):
        """Whether a call runs."""
        return self._running > 0

    def prepare_main(self, names=None, /, **more):
        """Sets variables of the interpreter's `__main__`. The values go as arguments of calls do."""
        self._raising(main.assign, {**(names or {}), **more})

    def exec(self, code, /, dedent=True):
        """Runs source text in the interpreter's `__main__`, in this thread."""
        if not isinstance(code, str):
            raise TypeError(f"code is a text, not {type(code).__name__}")
        self._raising(main.execute, textwrap.dedent(code) if dedent else code)

    def call(self, function, /, *args, **kwargs):
        """`function(*args, **kwargs)` in the interpreter, in this thread."""
        return self._raising(function, *args, **kwargs)

    def call_in_thread(self, function, /, *args, **kwargs):
        """Begins a call in a new thread, and returns that. Its result is lost, and its exception is shown as a thread's."""
        thread = threading.Thread(target=self.call, args=(function, *args), kwargs=kwargs, name=f"interpreter-{self._id}")
        thread.start()
        return thread

    def settle(self):
        """As `Executor.settle`."""
        return self._pool.settle()

    def interrupt(self):
        """Raises KeyboardInterrupt in the calls that run. Native code goes on until it returns. The number of these calls."""
        with self._lock:
            sessions = list(self._sessions)
        return sum(session.interrupt() for session in sessions)

    def close(self):
        """Ends the interpreter. While calls run, that is an `InterpreterError`."""
        with self._lock:
            if self._running:
                raise InterpreterError(f"{self!r} has {self._running} calls that run: wait for them, or interrupt() them")
            if self._is_closed:
                return
            self._is_closed = True
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        self._pool.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _session(self):
        session = getattr(self._own, "session", None)
        if session is None:
            session = self._own.session = self._pool.session(0)
            with self._lock:
                self._sessions.add(session)
        return session

    def _raising(self, function, /, *args, **kwargs):
        with self._lock:
            if self._is_closed:
                raise InterpreterError(f"{self!r} is closed")
            self._running += 1
        try:
            session = self._session()
            try:
                return session.call(function, *args, **kwargs)
            except Exception as error:
                if isinstance(error, Error) and getattr(error, "status", "") != "HZ_ERROR_PYTHON":
                    raise
                raise ExecutionFailed(error) from error
        finally:
            with self._lock:
                self._running -= 1
