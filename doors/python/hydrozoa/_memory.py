"""Memory that two Pythons use without a copy, in both directions."""

import ctypes
import os
import threading
import weakref
from ctypes import byref, c_char_p, c_int, c_ssize_t, c_uint64, c_void_p, cast, py_object

from ._library import LentMemory, library, made


class _Export(ctypes.Structure):
    """`Py_buffer` (CPython, Include/pybuffer.h)."""

    _fields_ = [
        ("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
        ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p), ("strides", c_void_p), ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = (py_object, ctypes.POINTER(_Export), c_int), c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = (ctypes.POINTER(_Export),), None

_SIMPLE = 0

# Lent memory, by number. An interpreter gives memory back on any of its threads, where no destructor of this Python's objects
# should run, and when this Python may have ended. So the library notes the number, and a thread of this Python ends the exports.
_lent = {}
_numbers = iter(range(1, 2**62))
_returns = None
_returner = None
_address = None


def _forked():
    """In the child of a fork, which does not give back its parent's lent memory."""
    global _returns, _returner
    _returns = _returner = None


os.register_at_fork(after_in_child=_forked)


def _end_exports(returns):
    numbers = (c_uint64 * 256)()
    while count := library.hz_returns_collect(returns, numbers, len(numbers)):
        for number in numbers[:count]:
            export = _lent.pop(number, None)
            if export is not None:
                _release(byref(export))


def start_returner():
    """Starts the thread that ends exports, once. If a signal handler comes between and starts a second, that does no harm."""
    global _returns, _returner, _address
    if _returner is None:
        _address = cast(library.hz_returns_release, c_void_p)
        returns = library.hz_returns_new()
        returner = threading.Thread(target=_end_exports, args=(returns,), name="hydrozoa-memory", daemon=True)
        returner.start()
        _returns, _returner = returns, returner


def exported(view, read_only=False):
    """The memory of `view`, which is bytes without gaps. It stays until its context is given back."""
    start_returner()
    export = _Export()
    _get(view, byref(export), _SIMPLE)
    number = next(_numbers)
    _lent[number] = export
    context = library.hz_returns_context(_returns, number)
    return LentMemory(export.buf, export.len, bool(read_only or export.readonly), _address, context)


def lend(session, view, read_only):
    """A handle of a memoryview in the session's interpreter, over the memory of `view`."""
    memory = exported(view, read_only)
    return made("hz_session_lend", session, memory.data, memory.len, memory.read_only, memory.release, memory.context)


def borrow(session, handle):
    """A memoryview over the memory of an object in the session's interpreter. The object and its interpreter stay until nobody
    here uses it."""
    return borrowed(made("hz_object_to_buffer", handle, session, False))


def borrowed(buffer):
    """A memoryview over the memory of a buffer, whose handle it takes."""
    return view_of(library.hz_buffer_data(buffer), library.hz_buffer_len(buffer), library.hz_buffer_free, buffer)


def view_of(address, length, free, owner):
    """A memoryview over memory of the library's, which stays until nobody here uses it: `free(owner)` gives it back then."""
    memory = (ctypes.c_char * length).from_address(address) if length else (ctypes.c_char * 0)()
    # It stays usable at exit.
    weakref.finalize(memory, free, owner).atexit = False
    return memoryview(memory).cast("B")
