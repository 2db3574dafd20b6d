"""Interpreters of one configuration, and calls of functions in them."""

import ctypes
import os
import sys
import threading
import weakref
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path

from . import _main as main
from . import _memory, _native
from . import _pickling as pickling
from ._library import BYTES, CONVERT, OBJECT, Error, Value, check, library, made, status_of, taken

TORCH = {"auto": 0, "shared": 1, "isolated": 2}

# What libraries read to find out how many threads they may start.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class RemoteError(Error):
    """An exception of the interpreter that cannot be made here: its class cannot be pickled."""

    status = "HZ_ERROR_PYTHON"


class _Traceback(Exception):
    """The cause of an exception that was raised in an interpreter: the traceback there."""

    def __str__(self):
        return f'\n"""\n{self.args[0]}"""'


def source(name):
    return Path(__file__).with_name(name).read_bytes()


def refuse_inside():
    """Raises an error in an interpreter."""
    if "_hydrozoa_worker" in sys.modules:
        raise Error("this is an interpreter of hydrozoa, which cannot start others: do that in the main program")


def budget(interpreters, threads):
    """How many threads the libraries of one interpreter may start: what is asked for, or a share of the processors."""
    if threads is None:
        return max(1, len(os.sched_getaffinity(0)) // interpreters)
    if threads < 1:
        raise ValueError("inner_threads must be greater than 0")
    return threads


def _environment(threads, is_asked_for):
    """The environment of an interpreter: this process's, and the number of threads where the process says none."""
    environment = dict(os.environb)
    for name in map(os.fsencode, THREADS):
        if is_asked_for or name not in environment:
            environment[name] = b"%d" % threads
    return environment


def greeting(pool):
    """A call that makes an interpreter of a pool ready, pickled."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    key = multiprocessing and bytes(multiprocessing.current_process().authkey)
    path = [entry for entry in sys.path if entry]
    return pickling.dumps((main.prepare, (path, pool.inner_threads, key), {}))[0]


def outcome(data, views):
    """Whether a call has returned a value, and that or its exception."""
    kind, data = data[:1], data[1:]
    try:
        if kind == b"v":
            return True, pickling.loads(data, views)
        name, message, text, own = pickling.loads(data)
    except Exception as error:
        return False, error
    try:
        error, cause = pickling.loads(own, views)
    except Exception:
        # Its class cannot be had here.
        error, cause = RemoteError(f"{name}: {message}"), None
    trace = _Traceback(text)
    error.__cause__ = trace if cause is None else cause
    if cause is not None:
        # The traceback shows the cause too.
        cause.__cause__ = trace
    return False, error


class Pool:
    """Interpreters of one configuration."""

    def __init__(self, count, *, python=None, venv=None, torch="auto", import_profile=None, inner_threads=None, settle_in=None):
        refuse_inside()
        if torch not in TORCH:
            raise ValueError(f"torch is {torch!r}, and may be {', '.join(map(repr, TORCH))}")
        threads, is_asked_for = budget(count, inner_threads), inner_threads is not None
        # What an interpreter says to libraries that do not read its environment.
        self.inner_threads = threads if is_asked_for or "OMP_NUM_THREADS" not in os.environ else None
        environment = [b"%s=%s" % pair for pair in _environment(threads, is_asked_for).items()]
        builder = library.hz_builder_new()
        try:
            check("hz_builder_interpreters", builder, count)
            check("hz_builder_torch", builder, TORCH[torch])
            texts = (ctypes.c_char_p * len(environment))(*environment)
            check("hz_builder_environment", builder, texts, len(texts))
            if python is None and venv is None:
                venv, python = (sys.prefix, None) if sys.prefix != sys.base_prefix else (None, sys.base_prefix)
            if python is not None:
                check("hz_builder_python", builder, os.fsencode(python))
            if venv is not None:
                check("hz_builder_venv", builder, os.fsencode(venv))
            if import_profile is not None:
                check("hz_builder_import_profile", builder, os.fsencode(import_profile))
            if settle_in is not None:
                check("hz_builder_settle_in", builder, os.fsencode(settle_in))
            self.handle = made("hz_builder_build", builder)
        finally:
            library.hz_builder_free(builder)
        self._end = weakref.finalize(self, library.hz_pool_free, self.handle)
        self._end.atexit = False
        # What holds the interpreters: it ends with them.
        self.shared = weakref.WeakSet()
        for file in ("_pickling.py", "_main.py", "_worker.py", *_native.MODULES):
            name = f"_hydrozoa{file.removesuffix('.py')}"
            check("hz_pool_register_module", self.handle, name.encode(), source(file))

    def settle(self):
        """Moves memory of the interpreters to the directory that they were made with. The bytes that are left."""
        left = c_uint64()
        check("hz_pool_settle", self.handle, byref(left))
        return left.value

    def close(self):
        """Waits for the end of the interpreters that nothing uses. The others end when nothing uses them any more."""
        for shared in list(self.shared):
            shared.close()
        self._end()

    def session(self, index):
        return Session(self, index)


class Session:
    """The calling thread's lease on one interpreter of a pool."""

    def __init__(self, pool, index):
        self._pool = pool
        self._has_given_up = False
        self._only, self._place, self._error = (Value * 1)(), c_void_p(), c_void_p()
        self._place_reference, self._error_reference = byref(self._place), byref(self._error)
        self._handle = made("hz_pool_acquire_on", pool.handle, index)
        self._end = weakref.finalize(self, library.hz_session_free, self._handle)
        self._end.atexit = False
        self._interrupting = threading.Lock()
        self._interrupt = made("hz_session_interrupt_handle", self._handle)
        self._interrupt_end = weakref.finalize(self, library.hz_interrupt_handle_free, self._interrupt)
        self._interrupt_end.atexit = False
        worker = made("hz_session_import", self._handle, b"_hydrozoa_worker")
        try:
            _native.give_companion(self._handle, worker)
            self._run = self._own(made("hz_object_getattr", worker, self._handle, b"run"))
        finally:
            library.hz_object_free(worker)
        self.finish(self.begin(greeting(pool), ()))

    def _own(self, handle):
        end = weakref.finalize(self, library.hz_object_free, handle)
        end.atexit = False
        return handle

    @property
    def handle(self):
        return self._handle

    def close(self):
        # Another thread may be about to interrupt it.
        with self._interrupting:
            self._interrupt_end()
        self._end()

    def interrupt(self):
        """Raises KeyboardInterrupt in the call that runs, from any thread. True if there is one."""
        with self._interrupting:
            return self._interrupt_end.alive and library.hz_interrupt_handle_interrupt(self._interrupt)

    def call(self, function, /, *arguments, **keywords):
        """`function(*arguments, **keywords)` in the interpreter."""
        data, views = pickling.dumps((function, arguments, keywords))
        try:
            return self.finish(self.begin(data, views))
        finally:
            self.collect()

    def collect(self):
        """Frees the memory that this Python has given up. Otherwise the next call does."""
        if not self._has_given_up:
            return
        self._has_given_up = False
        truth = ctypes.c_bool()
        _, error = status_of("hz_object_truth", self._run, self._handle, byref(truth))
        # An interrupt that comes too late.
        library.hz_error_free(error)

    def begin(self, data, views):
        """Calls what was pickled. The result is the handle of an object."""
        lent = []
        try:
            for view in views:
                lent.append(_memory.lend(self._handle, view, not pickling.is_shared(view)))
            return self._called(self._run, data, lent)
        finally:
            for handle in lent:
                self._has_given_up = True
                library.hz_object_free(handle)

    def _called(self, function, data, objects):
        if objects:
            values = (Value * (1 + len(objects)))()
            for place, handle in enumerate(objects, 1):
                values[place].kind = OBJECT
                values[place].data.object = handle
        else:
            values = self._only
        first = values[0]
        first.kind, first.len, first.data.bytes = BYTES, len(data), data
        status = library.hz_object_call(
            function, self._handle, values, len(values), None, 0, self._place_reference, self._error_reference
        )
        # The bytes were copied.
        first.data.bytes = None
        return self._placed(status)

    def _placed(self, status):
        """The handle that a function has made. A session has one thread, and so one place for it."""
        if status:
            raise taken(status, self._error)
        return self._place.value

    def finish(self, result):
        """The value of a call, or its exception."""
        try:
            data, views = self._parts(result)
        finally:
            library.hz_object_free(result)
        is_value, value = outcome(data, views)
        if not is_value:
            raise value
        return value

    def _parts(self, result):
        status = library.hz_object_to_bytes(result, self._handle, self._place_reference, self._error_reference)
        if status != CONVERT:
            return self._bytes(self._placed(status)), ()
        library.hz_error_free(self._error)
        count = c_size_t()
        check("hz_object_len", result, self._handle, byref(count))
        parts = []
        try:
            for index in range(count.value):
                key = Value(2, 0)
                key.data.integer = index
                parts.append(made("hz_object_get_item", result, self._handle, byref(key)))
            data = self._bytes(made("hz_object_to_bytes", parts[0], self._handle))
            return data, [_memory.borrow(self._handle, part) for part in parts[1:]]
        finally:
            self._has_given_up = True
            for part in parts:
                library.hz_object_free(part)

    @staticmethod
    def _bytes(handle):
        try:
            return ctypes.string_at(library.hz_bytes_data(handle), library.hz_bytes_len(handle))
        finally:
            library.hz_bytes_free(handle)
