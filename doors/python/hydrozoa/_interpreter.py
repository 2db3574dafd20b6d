"""One interpreter, in the style of PEP 734."""

import itertools
import textwrap
import threading
import traceback
import types
import weakref

import _hydrozoa_main as main

from ._library import Error, living
from ._pool import Pool


class InterpreterError(Error):
    """The interpreter is closed, or has work that must end first."""

    status = "HZ_ERROR_IN_USE"


class ExecutionFailed(InterpreterError):
    """Code in the interpreter raised an exception, which is the cause. `excinfo` describes it: its `type`, its text `msg`, and
    as `formatted` the last line of its traceback."""

    status = "HZ_ERROR_PYTHON"

    def __init__(self, error):
        formatted = "".join(traceback.format_exception_only(type(error), error)).strip()
        super().__init__(formatted)
        self.excinfo = types.SimpleNamespace(type=type(error), msg=str(error), formatted=formatted)


_numbers = itertools.count(1)


class Interpreter:
    """An interpreter of this process, with a GIL of its own. Any thread may call it, several at once.

    The options are those of `Executor`. The interpreter ends when it is closed, or forgotten. After a contained crash all calls are a
    `CrashedInterpreter`: what its `__main__` had is lost.
    """

    def __init__(self, *, python=None, venv=None, import_profile=None, inner_threads=None, dense=None,
                 contain_crashes=False):
        self._id = next(_numbers)
        self._pool = Pool(
            1, python=python, venv=venv, import_profile=import_profile, inner_threads=inner_threads,
            dense=dense, contain_crashes=contain_crashes,
        )
        # A session of each thread that calls.
        self._own = threading.local()
        self._sessions = weakref.WeakValueDictionary()
        # This code takes no locks: a signal handler or finalizer would wait for the code that it interrupts.
        self._running = set()
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
        return bool(self._running)

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
        return sum(session.interrupt() for session in living(self._sessions))

    def close(self):
        """Ends the interpreter. While calls run, that is an `InterpreterError`."""
        is_closed, self._is_closed = self._is_closed, True
        # After that: a call that begins sees one, or is seen.
        if running := len(self._running):
            self._is_closed = is_closed
            raise InterpreterError(f"{self!r} has {running} calls that run: wait for them, or interrupt() them")
        if is_closed:
            return
        for session in living(self._sessions):
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
            self._sessions[id(session)] = session
        return session

    def _raising(self, function, /, *args, **kwargs):
        running = object()
        try:
            self._running.add(running)
            if self._is_closed:
                raise InterpreterError(f"{self!r} is closed")
            try:
                is_value, value = self._session().outcome(function, args, kwargs)
            except Error as error:
                if error.status != "HZ_ERROR_PYTHON":
                    raise
                is_value, value = False, error
            if is_value:
                return value
            if isinstance(value, Error) and value.status != "HZ_ERROR_PYTHON" or not isinstance(value, Exception):
                raise value
            raise ExecutionFailed(value) from value
        finally:
            self._running.discard(running)
