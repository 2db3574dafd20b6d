"""The C library by ctypes: its functions, its handles, and its errors as exceptions.

A call by ctypes takes 0.1 microseconds, as one by cffi does, and lets go of this Python's GIL meanwhile. So no thread waits for an
interpreter while it has that GIL.
"""

import ctypes
import os
import weakref
from concurrent.futures import BrokenExecutor
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path


class Error(Exception):
    """An interpreter could not do what it was asked for. `status` is the name of the C library's status."""

    status = "HZ_ERROR_SYSTEM"


class BrokenInterpreter(Error):
    """The interpreter has ended, or did not start."""


class CrashedInterpreter(BrokenInterpreter, BrokenExecutor):
    """Native code of the interpreter has crashed, in this call or before, and the crash was contained. `report` is the report of
    the crash: the signal, the native stack, and the stacks of Python."""

    report = ""


class Interrupted(Error):
    """The call was interrupted, or has exceeded its time limit."""


STATUSES = {
    1: "INVALID_ARGUMENT", 2: "THREAD", 3: "PYTHON", 4: "INTERRUPTED", 5: "DEADLINE", 6: "CONVERT", 7: "FOREIGN", 8: "ENDED",
    9: "BUSY", 10: "IN_USE", 11: "NO_SUCH_INTERPRETER", 12: "PYTHON_NOT_FOUND", 13: "START", 14: "CONFIGURATION", 15: "PACKAGE",
    16: "SYSTEM", 17: "PANIC", 18: "CRASHED",
}
_CLASSES = {4: Interrupted, 5: Interrupted, 8: BrokenInterpreter, 13: BrokenInterpreter, 18: CrashedInterpreter}


class _Data(ctypes.Union):
    _fields_ = [("integer", c_int64), ("real", c_double), ("bytes", c_char_p), ("object", c_void_p)]


class Value(ctypes.Structure):
    """`hz_value`."""

    _fields_ = [("kind", c_int), ("len", c_size_t), ("data", _Data)]


BYTES, OBJECT = 5, 10

# A function of the library that gives memory back. It must not be a Python function: an interpreter's thread would call it
# while this Python ends.
Release = ctypes.CFUNCTYPE(None, c_void_p)


class LentMemory(ctypes.Structure):
    """`hz_memory`."""

    _fields_ = [("data", c_void_p), ("len", c_size_t), ("read_only", c_bool), ("release", c_void_p), ("context", c_void_p)]


class Answer(ctypes.Structure):
    """`hz_answer`."""

    _fields_ = [("data", c_void_p), ("len", c_size_t), ("buffers", c_size_t)]


_handle = c_void_p
_out = POINTER(c_void_p)
_text = c_char_p

# The functions whose status is checked, and their arguments without the last one, the place for an error.
_CHECKED = {
    "hz_builder_interpreters": (_handle, c_size_t),
    "hz_builder_max_sessions": (_handle, c_size_t),
    "hz_builder_python": (_handle, _text),
    "hz_builder_venv": (_handle, _text),
    "hz_builder_environment": (_handle, POINTER(c_char_p), c_size_t),
    "hz_builder_import_profile": (_handle, _text),
    "hz_builder_dense": (_handle, _text),
    "hz_builder_contain_crashes": (_handle, c_bool),
    "hz_builder_replace_crashed": (_handle, c_bool),
    "hz_builder_build": (_handle, _out),
    "hz_pool_acquire_on": (_handle, c_size_t, _out),
    "hz_pool_settle": (_handle, POINTER(c_uint64)),
    "hz_pool_register_module": (_handle, _text, _text),
    "hz_session_import": (_handle, _text, _out),
    "hz_session_interrupt_handle": (_handle, _out),
    "hz_session_lend": (_handle, c_void_p, c_size_t, c_bool, c_void_p, c_void_p, _out),
    "hz_object_getattr": (_handle, _handle, _text, _out),
    "hz_object_get_item": (_handle, _handle, POINTER(Value), _out),
    "hz_object_setattr": (_handle, _handle, _text, POINTER(Value)),
    "hz_object_truth": (_handle, _handle, POINTER(c_bool)),
    "hz_object_len": (_handle, _handle, POINTER(c_size_t)),
    "hz_object_to_bytes": (_handle, _handle, _out),
    "hz_object_to_buffer": (_handle, _handle, c_bool, _out),
    "hz_workers_new": (_text, _text, c_size_t, _out),
    "hz_workers_enlist": (_handle, c_bool, POINTER(c_size_t)),
    "hz_workers_start": (_handle, c_size_t, _handle, c_size_t, _text),
    "hz_workers_submit": (_handle, c_size_t, c_uint64, _text, c_size_t, POINTER(LentMemory), c_size_t, _out),
    "hz_job_answer": (_handle, POINTER(Answer)),
    "hz_job_buffer": (_handle, c_size_t, _out),
    "hz_object_call": (_handle, _handle, POINTER(Value), c_size_t, c_void_p, c_size_t, _out),
    "hz_session_create_movable": (_handle, _handle, _out),
    "hz_session_companion": (_handle, _out),
    "hz_movable_unload": (_handle, _handle),
    "hz_pool_load_package": (_handle, _text, _out),
    "hz_package_load_pickle": (_handle, _text, _text, _out),
    "hz_package_load_text": (_handle, _text, _text, _out),
    "hz_package_load_binary": (_handle, _text, _text, _out),
    "hz_queue_from_id": (c_uint64, _out),
    "hz_queue_put": (_handle, c_char_p, c_size_t, POINTER(LentMemory), c_size_t, c_uint64, POINTER(c_bool)),
    "hz_queue_get": (_handle, c_uint64, _out),
    "hz_message_memory": (_handle, c_size_t, POINTER(LentMemory)),
}
_PLAIN = {
    "hz_version": ((), _text),
    "hz_builder_new": ((), _handle),
    "hz_bytes_data": ((_handle,), c_void_p),
    "hz_bytes_len": ((_handle,), c_size_t),
    "hz_buffer_data": ((_handle,), c_void_p),
    "hz_buffer_len": ((_handle,), c_size_t),
    "hz_error_message": ((_handle,), _text),
    "hz_error_type_name": ((_handle,), _text),
    "hz_error_traceback": ((_handle,), _text),
    "hz_error_report": ((_handle,), _text),
    "hz_interrupt_handle_interrupt": ((_handle,), c_bool),
    "hz_pool_size": ((_handle,), c_size_t),
    "hz_workers_open": ((_handle, c_size_t), None),
    "hz_workers_lost": ((_handle, POINTER(c_size_t)), c_bool),
    "hz_workers_collect": ((_handle, POINTER(c_uint64), c_size_t), c_size_t),
    "hz_workers_interrupt": ((_handle, c_size_t), c_bool),
    "hz_workers_close": ((_handle,), None),
    "hz_workers_abandon": ((_handle,), None),
    "hz_job_stage": ((_handle,), c_int),
    "hz_job_cancel": ((_handle,), c_bool),
    "hz_job_claim": ((_handle, c_uint64), c_bool),
    "hz_job_give_back": ((_handle,), None),
    **{f"hz_{name}_free": ((_handle,), None)
       for name in ("builder", "pool", "session", "object", "bytes", "buffer", "error", "interrupt_handle", "workers", "job",
                    "movable", "package", "queue", "message")},
    "hz_movable_id": ((_handle,), c_uint64),
    "hz_package_id": ((_handle,), c_uint64),
    "hz_queue_new": ((c_size_t,), _handle),
    "hz_queue_id": ((_handle,), c_uint64),
    "hz_queue_max_len": ((_handle,), c_size_t),
    "hz_queue_len": ((_handle,), c_size_t),
    "hz_message_data": ((_handle,), c_void_p),
    "hz_message_len": ((_handle,), c_size_t),
    "hz_message_memory_count": ((_handle,), c_size_t),
    "hz_returns_new": ((), _handle),
    "hz_returns_context": ((_handle, c_uint64), c_void_p),
    "hz_returns_release": ((c_void_p,), None),
    "hz_returns_collect": ((_handle, POINTER(c_uint64), c_size_t), c_size_t),
}


class _Library:
    """The library, which is loaded when it is first used: interpreters import this package as well, and never use it."""

    def __getattr__(self, wanted):
        path = os.environ.get("HYDROZOA_LIBRARY") or str(Path(__file__).with_name("libhydrozoa.so"))
        library = ctypes.CDLL(path)
        for name, (arguments, result) in _PLAIN.items():
            self._add(library, name, arguments, result)
        for name, arguments in _CHECKED.items():
            self._add(library, name, (*arguments, _out), c_int)
        return vars(self)[wanted]

    def _add(self, library, name, arguments, result):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
        vars(self)[name] = function


library = _Library()


def status_of(name, *arguments):
    """Calls a function, and returns its status and the handle of its error."""
    error = c_void_p()
    return getattr(library, name)(*arguments, byref(error)), error


def check(name, *arguments):
    """Calls a function that may fail. A failure is an exception."""
    status, error = status_of(name, *arguments)
    if status:
        raise taken(status, error)


def made(name, *arguments):
    """Calls a function whose last argument is the place of a handle, and returns the handle."""
    place = c_void_p()
    check(name, *arguments, byref(place))
    return place.value


def bytes_of(handle):
    """The content of an `hz_bytes`, which is freed."""
    try:
        return ctypes.string_at(library.hz_bytes_data(handle), library.hz_bytes_len(handle))
    finally:
        library.hz_bytes_free(handle)


def taken(status, error):
    """The exception for a failure. Its handle is freed."""
    try:
        message = library.hz_error_message(error).decode(errors="replace")
        exception = _CLASSES.get(status, Error)(message)
        exception.status = f"HZ_ERROR_{STATUSES.get(status, status)}"
        traceback = library.hz_error_traceback(error).decode(errors="replace")
        if isinstance(exception, CrashedInterpreter):
            exception.report = library.hz_error_report(error).decode(errors="replace")
        if traceback and hasattr(exception, "add_note"):
            exception.add_note(f"In the interpreter:\n{traceback}")
        return exception
    finally:
        library.hz_error_free(error)


class Owned:
    """A handle that is freed when nothing refers to this any more. Code that uses the handle must keep a reference meanwhile:
    another thread, a signal handler or a finalizer may give it up. At exit it stays usable: it is not freed then."""

    __slots__ = ("value", "end", "__weakref__")

    def __init__(self, name, value, *, is_process_s=False):
        self.value = value
        self.end = weakref.finalize(self, _free, f"hz_{name}_free", value, os.getpid() if is_process_s else None)
        self.end.atexit = False


def _free(free, value, process):
    # A forked child has locks that nobody frees.
    if process is None or process == os.getpid():
        getattr(library, free)(value)


def living(known):
    """The living values of a WeakValueDictionary. Other threads, handlers and finalizers would change a set while it is read."""
    return [object for reference in known.valuerefs() if (object := reference()) is not None]
