"""Interpreters of one configuration, and calls of functions in them."""

import ctypes
import os
import sys
import weakref
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path

import _hydrozoa_main as main
import _hydrozoa_pickling as pickling
import _hydrozoa_queue
import _hydrozoa_share

from . import _memory, _native
from ._library import BYTES, OBJECT, Error, Owned, Value, bytes_of, check, library, living, made, status_of, taken

# The arguments of a call without memory beside its bytes.
_ONE = Value * 1

# The variables from which libraries learn how many threads they may start.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class RemoteError(Error):
    """An exception of the interpreter that cannot be made here: its class cannot be pickled."""

    status = "HZ_ERROR_PYTHON"


class _Traceback(Exception):
    """The cause of an exception that was raised in an interpreter: the traceback there."""

    def __str__(self):
        return f'\n"""\n{self.args[0]}"""'


# The modules of every interpreter, and their sources. This Python has them too, but for the worker.
_MODULES = {module.__name__: Path(module.__file__) for module in (main, pickling, _hydrozoa_queue, _hydrozoa_share)}
_MODULES["_hydrozoa_worker"] = Path(__file__).with_name("_worker.py")


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
    """A call that makes an interpreter of a pool ready, pickled, and no memory."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    key = multiprocessing and bytes(multiprocessing.current_process().authkey)
    path = [entry for entry in sys.path if entry]
    return pickling.dumps((main.prepare, (path, _standard(path), _packages(), pool.inner_threads, key), {}))


def _standard(path):
    """The entries of a path that lead to this Python's standard library."""
    library = os.path.dirname(os.__file__)
    archive = os.path.join(os.path.dirname(library), "python")
    return [
        entry
        for entry in path
        if entry in (library, os.path.join(library, "lib-dynload")) or entry.startswith(archive) and entry.endswith(".zip")
    ]


def _packages():
    """The directories that this Python has packages in."""
    site = sys.modules.get("site")
    if site is None:
        return []
    return site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])


def outcome(data, views):
    """Whether a call has returned a value, and that or its exception."""
    try:
        return _loaded(data, views)
    except Exception as error:
        try:
            _loaded(data, views)
        except Exception:
            # It cannot be made here.
            return False, error
        # It can: a signal's handler has raised that meanwhile.
        raise


def _loaded(data, views):
    kind, data = data[:1], data[1:]
    if kind == b"v":
        return True, pickling.loads(data, views)
    name, message, text, own = pickling.loads(data)
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


def _value(is_value, value):
    if not is_value:
        raise value
    return value


class Pool:
    """Interpreters of one configuration."""

    def __init__(self, count, *, python=None, venv=None, import_profile=None, inner_threads=None, dense=None,
                 contain_crashes=False):
        refuse_inside()
        threads, is_asked_for = budget(count, inner_threads), inner_threads is not None
        # The thread count that an interpreter passes to libraries that do not read its environment.
        self.inner_threads = threads if is_asked_for or "OMP_NUM_THREADS" not in os.environ else None
        environment = [b"%s=%s" % pair for pair in _environment(threads, is_asked_for).items()]
        builder = library.hz_builder_new()
        try:
            check("hz_builder_interpreters", builder, count)
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
            if dense is not None:
                check("hz_builder_dense", builder, os.fsencode(dense))
            if contain_crashes:
                check("hz_builder_contain_crashes", builder, True)
                # A worker does it, and makes the new interpreter ready.
                check("hz_builder_replace_crashed", builder, False)
            self._owned = Owned("pool", made("hz_builder_build", builder))
        finally:
            library.hz_builder_free(builder)
        # Objects that hold the interpreters: they end with them.
        self.shared = weakref.WeakValueDictionary()
        # So that no handler of a signal has to start it.
        _memory.start_returner()
        for name, file in _MODULES.items():
            check("hz_pool_register_module", self._owned.value, name.encode(), file.read_bytes())

    def owned(self):
        """Its handle."""
        if (owned := self._owned) is None:
            raise Error("the interpreters were closed")
        return owned

    def settle(self):
        """Moves memory of the interpreters to the directory that they were made with. The bytes that are left."""
        left, owned = c_uint64(), self.owned()
        check("hz_pool_settle", owned.value, byref(left))
        return left.value

    def close(self):
        """Waits for the end of the interpreters that nothing uses. The others end when nothing uses them any more."""
        for shared in living(self.shared):
            shared.close()
        self._owned = None

    def session(self, index):
        return Session(self, index)


class Session:
    """The calling thread's lease on one interpreter of a pool."""

    def __init__(self, pool, index):
        self._pool = pool
        self._has_given_up = False
        owned = pool.owned()
        self._owned = Owned("session", made("hz_pool_acquire_on", owned.value, index))
        self._handle = self._owned.value
        self._interrupt = Owned("interrupt_handle", made("hz_session_interrupt_handle", self._handle))
        worker = made("hz_session_import", self._handle, b"_hydrozoa_worker")
        try:
            _native.give_companion(self._handle, worker)
            self._run = Owned("object", made("hz_object_getattr", worker, self._handle, b"run"))
        finally:
            library.hz_object_free(worker)
        _value(*self._finish(self._begin(*greeting(pool))))

    @property
    def handle(self):
        return self._handle

    def close(self):
        self._interrupt = None
        self._owned.end()

    def interrupt(self):
        """Raises KeyboardInterrupt in the call that runs, from any thread. True if there is one."""
        interrupt = self._interrupt
        return interrupt is not None and library.hz_interrupt_handle_interrupt(interrupt.value)

    def call(self, function, /, *arguments, **keywords):
        """`function(*arguments, **keywords)` in the interpreter."""
        return _value(*self.outcome(function, arguments, keywords))

    def outcome(self, function, arguments, keywords):
        """Whether the call has returned a value, and that or its exception."""
        data, views = pickling.dumps((function, arguments, keywords))
        try:
            return self._finish(self._begin(data, views))
        finally:
            self.collect()

    def collect(self):
        """Frees the memory that this Python has given up. Otherwise the next call does."""
        if not self._has_given_up:
            return
        self._has_given_up = False
        truth = ctypes.c_bool()
        _, error = status_of("hz_object_truth", self._run.value, self._handle, byref(truth))
        # An interrupt that comes too late.
        library.hz_error_free(error)

    def _begin(self, data, views):
        """Calls what was pickled. The result is the handle of an object."""
        lent = []
        try:
            for view in views:
                lent.append(_memory.lend(self._handle, view, not pickling.is_shared(view)))
            return self._called(self._run.value, data, lent)
        finally:
            for handle in lent:
                self._has_given_up = True
                library.hz_object_free(handle)

    # All places are a call's own: the handler of a signal, or a finalizer, may call the same interpreter in between.

    def _called(self, function, data, objects):
        values = (Value * (1 + len(objects)))() if objects else _ONE()
        for place, handle in enumerate(objects, 1):
            values[place].kind = OBJECT
            values[place].data.object = handle
        first = values[0]
        first.kind, first.len, first.data.bytes = BYTES, len(data), data
        return self._placed(library.hz_object_free, library.hz_object_call, function, self._handle, values, len(values), None, 0)

    @staticmethod
    def _placed(free, function, *arguments):
        """The handle that a function has made."""
        place, error = c_void_p(), c_void_p()
        try:
            status = function(*arguments, byref(place), byref(error))
        except BaseException:
            # A signal's exception is raised when the function has returned.
            free(place)
            library.hz_error_free(error)
            raise
        if status:
            raise taken(status, error)
        return place.value

    def _finish(self, result):
        try:
            data, views = self._parts(result)
        finally:
            library.hz_object_free(result)
        return outcome(data, views)

    def _parts(self, result):
        try:
            return bytes_of(self._to_bytes(result)), ()
        except Error as error:
            if error.status != "HZ_ERROR_CONVERT":
                raise
        count = c_size_t()
        check("hz_object_len", result, self._handle, byref(count))
        parts = []
        try:
            for index in range(count.value):
                key = Value(2, 0)
                key.data.integer = index
                parts.append(made("hz_object_get_item", result, self._handle, byref(key)))
            data = bytes_of(self._to_bytes(parts[0]))
            return data, [_memory.borrow(self._handle, part) for part in parts[1:]]
        finally:
            self._has_given_up = True
            for part in parts:
                library.hz_object_free(part)

    def _to_bytes(self, object):
        return self._placed(library.hz_bytes_free, library.hz_object_to_bytes, object, self._handle)
