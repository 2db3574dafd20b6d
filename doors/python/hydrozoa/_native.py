"""The library's side for this program and its interpreters alike: queues, and the lookup of the program's objects."""

import ctypes
import math
from ctypes import byref, c_bool

import _hydrozoa_queue

from . import _memory
from ._library import OBJECT, LentMemory, Owned, Release, Value, check, library, made


def give_companion(session, module):
    """Gives a module of a session's interpreter its companion, as workers do (hz_workers_start)."""
    companion = Value(OBJECT, 0)
    companion.data.object = made("hz_session_companion", session)
    try:
        check("hz_object_setattr", module, session, b"companion", byref(companion))
    finally:
        library.hz_object_free(companion.data.object)


class _Channel:
    """A queue of the library, as interpreters have it."""

    def __init__(self, handle):
        self._handle = handle
        self._owned = Owned("queue", handle, is_process_s=True)
        self.id = library.hz_queue_id(handle)
        self.max_len = library.hz_queue_max_len(handle)

    def __len__(self):
        return library.hz_queue_len(self._handle)

    def put(self, data, views, seconds):
        lent = [_memory.exported(view) for view in views]
        memory = (LentMemory * len(lent))(*lent)
        is_put = c_bool()
        try:
            check("hz_queue_put", self._handle, data, len(data), memory, len(lent), _milliseconds(seconds), byref(is_put))
        finally:
            if not is_put:
                for piece in lent:
                    library.hz_returns_release(piece.context)
        return is_put.value

    def get(self, seconds):
        message = made("hz_queue_get", self._handle, _milliseconds(seconds))
        if message is None:
            return None
        try:
            data = ctypes.string_at(library.hz_message_data(message), library.hz_message_len(message))
            return data, [_memory_of(message, index) for index in range(library.hz_message_memory_count(message))]
        finally:
            library.hz_message_free(message)


def _memory_of(message, index):
    """A memoryview over a piece of a message's memory."""
    piece = LentMemory()
    check("hz_message_memory", message, index, byref(piece))
    view = _memory.view_of(piece.data, piece.len, Release(piece.release), piece.context)
    return view.toreadonly() if piece.read_only else view


def _milliseconds(seconds):
    return math.ceil(seconds * 1000)


class _Program:
    """The library, as interpreters have it."""

    @staticmethod
    def queue(id):
        handle = made("hz_queue_from_id", id)
        if handle is None:
            raise LookupError(f"nobody has the queue {id} any more")
        return _Channel(handle)

    @staticmethod
    def new_queue(max_len):
        return _Channel(library.hz_queue_new(max_len))


if _hydrozoa_queue.native is None:
    _hydrozoa_queue.native = _Program
