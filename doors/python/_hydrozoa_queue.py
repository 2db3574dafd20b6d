"""Queues between the program and its interpreters, after those of PEP 734.

Pickles name this module, so the program and its interpreters have it by one name.
"""

import atexit
import os
import queue
import sys
import time
import weakref

import _hydrozoa_pickling as pickling

_worker = sys.modules.get("_hydrozoa_worker")

# The longest time in native code, in seconds: interrupts and signals are noticed in between.
TURN = 0.02

# Finds and makes queues: in interpreters the program's companion, in the program the library.
native = _worker and _worker.companion

_known = weakref.WeakValueDictionary()
_forks = 0


class QueueError(Exception):
    """A queue cannot be used here."""


class QueueNotFoundError(QueueError):
    """The queue exists no longer."""


class QueueEmpty(QueueError, queue.Empty):
    """The queue is empty, or no object came in time."""


class QueueFull(QueueError, queue.Full):
    """The queue is full, or did not get room in time."""


class Queue:
    """A queue for objects that the program and its interpreters, of every executor and every Python, put and get.

    `create_queue` makes one. `Queue(id)` is the one of that number, which must still be in use. Objects travel as arguments of
    calls do: arrays and tensors are not copied. Arrays are read-only for the receiver.
    """

    def __new__(cls, id, /):
        if not isinstance(id, int):
            raise TypeError(f"id is an int, not {type(id).__name__}")
        known = _known.get(id)
        if known is not None:
            return known._checked()
        try:
            # The library's numbers begin with 1.
            return cls._of(native.queue(id if 0 < id < 1 << 63 else 0))
        except LookupError:
            raise QueueNotFoundError(f"nobody has the queue {id} any more") from None

    @classmethod
    def _of(cls, channel):
        self = super().__new__(cls)
        self._channel, self._id, self._forks = channel, channel.id, _forks
        return _known.setdefault(self._id, self)

    def _checked(self):
        if self._forks != _forks:
            raise QueueError(f"{self!r} is the parent's of this process, which is a forked child: make one here")
        if self._channel is None:
            raise QueueError("this interpreter ends")
        return self

    def _open(self):
        channel = self._checked()._channel
        if channel is None:
            # The interpreter is ending. This thread ends without a word, as others that are left behind.
            raise SystemExit
        return channel

    def __repr__(self):
        return f"Queue({self._id})"

    def __eq__(self, other):
        return self._id == other._id if isinstance(other, Queue) else NotImplemented

    def __hash__(self):
        return hash(self._id)

    def __reduce_ex__(self, protocol):
        self._checked()
        return _received, (os.getpid(), self._id, pickling.keeping(self, protocol))

    @property
    def id(self):
        """A number that no other queue of this process has."""
        return self._id

    @property
    def maxsize(self):
        """The most objects that it holds. 0 is any number."""
        return self._checked()._channel.max_len

    def qsize(self):
        """How many objects it has just now."""
        return len(self._checked()._channel)

    def empty(self):
        """Whether it has no object just now."""
        return self.qsize() == 0

    def full(self):
        """Whether it has no room just now."""
        return 0 < self.maxsize <= self.qsize()

    def put(self, object, block=True, timeout=None):
        """Puts an object. Waits for room, at most `timeout` seconds, and raises `QueueFull` then."""
        turns = _turns(block, timeout)
        data, views = pickling.dumps(object)
        views = [view if pickling.is_shared(view) else view.toreadonly() for view in views]
        # The channel is in no variable: see _end.
        for seconds in turns:
            if self._open().put(data, views, seconds):
                return
        raise QueueFull

    def get(self, block=True, timeout=None):
        """The first object. Waits for one, at most `timeout` seconds, and raises `QueueEmpty` then."""
        for seconds in _turns(block, timeout):
            message = self._open().get(seconds)
            if message is not None:
                return pickling.loads(*message)
        raise QueueEmpty

    def put_nowait(self, object):
        """Puts an object, or raises `QueueFull`."""
        self.put(object, False)

    def get_nowait(self):
        """The first object, or `QueueEmpty`."""
        return self.get(False)


def create_queue(maxsize=0):
    """A queue of at most `maxsize` objects, or of any number if that is not positive."""
    return Queue._of(native.new_queue(min(max(0, maxsize), sys.maxsize)))


def _received(process, id, reference):
    if process != os.getpid():
        raise QueueError(f"the queue {id} is of another process")
    return Queue(id)


def _turns(block, timeout):
    """How long to wait in native code, again and again."""
    if block and timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return _forever() if block and timeout is None else _until(timeout if block else 0)


def _forever():
    while True:
        yield TURN


def _until(timeout):
    end = time.monotonic() + timeout
    yield min(timeout, TURN)
    while (left := end - time.monotonic()) > 0:
        yield min(left, TURN)


def _forked():
    global _forks
    _forks += 1
    _known.clear()


os.register_at_fork(after_in_child=_forked)


def _end():
    """When an interpreter ends, threads that still wait are left behind, with a queue without its channel."""
    for known in list(_known.values()):
        known._channel = None


if _worker is not None:
    atexit.register(_end)
