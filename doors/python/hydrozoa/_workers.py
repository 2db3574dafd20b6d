"""Threads of the C library that run calls in interpreters, and the futures of these calls.

A worker waits for calls and runs them without this Python's GIL. What a call has returned is made a value here: by the thread that
waits for it at that moment, or else by one thread that collects the results, and starts the workers.

There are no locks here. The handler of a signal, a finalizer or a callback may run between any two steps of this code, and may use
the same executor: it would wait for what it interrupts. Each change is one step (of a dictionary, a queue, an attribute), or the
library's.
"""

import _thread
import collections
import ctypes
import itertools
import logging
import threading
import time
from concurrent.futures import BrokenExecutor, Future as Base, InvalidStateError, TimeoutError
from ctypes import byref, c_size_t, c_uint64, c_void_p

import _hydrozoa_pickling as pickling

from . import _memory
from ._library import Answer, Error, LentMemory, Owned, check, library, made, status_of, taken
from ._pool import greeting, outcome

# How many microseconds a thread that wants a result looks for it before it sleeps. To wake it up again takes longer than a short call.
PATIENCE = 50

ANY = c_size_t(-1).value
# The library returns this instead of a tag when another worker could help.
FEW = c_uint64(-1).value
RUNNING, ENDED = 1, 2

# How many seconds a thread waits for the collector before it looks whether that is held up.
TURN = 0.05

# How many seconds a thread waits for the pool that another one makes. That one may be waiting for this one, by a signal's handler.
MAKING = 5

logger = logging.getLogger("concurrent.futures")


class BrokenInterpreterPool(BrokenExecutor):
    """An initializer has raised, or an interpreter did not start. Nothing more is run."""


def failure(error):
    broken = BrokenInterpreterPool("an interpreter or its initializer failed; nothing more is run")
    broken.__cause__ = error
    return broken


def _is_abandoned(error):
    return getattr(error, "status", None) == "HZ_ERROR_ENDED"


class _Job:
    """A call. The library puts the handle into its place before the call can end."""

    # An interrupt may come before there is one.
    place = None

    def __init__(self):
        self.place = c_void_p()
        # Threads that look for the result.
        self.lookers = set()

    @property
    def handle(self):
        return self.place.value

    def __del__(self, free=library):
        free.hz_job_free(self.place)

    def value(self):
        """Whether there is a value, and that or an exception."""
        answer = Answer()
        status, error = status_of("hz_job_answer", self.handle, byref(answer))
        if status:
            return False, taken(status, error)
        data = ctypes.string_at(answer.data, answer.len)
        views = [_memory.borrowed(made("hz_job_buffer", self.handle, index)) for index in range(answer.buffers)]
        return outcome(data, views)


class _Condition(_thread.RLock):
    """A future's condition. An interrupt in a `with` of CPython's own, which is in Python, may leave its lock held: then the
    collector would wait for ever."""

    def __init__(self):
        self._waiters = collections.deque()

    def _whole(self):
        condition = threading.Condition(self)
        condition._waiters = self._waiters
        return condition

    def wait(self, timeout=None):
        try:
            return self._whole().wait(timeout)
        except BaseException:
            # One that came between its release and its `try`.
            if not self._is_owned():
                self.acquire()
            raise

    def notify_all(self):
        self._whole().notify_all()


class Future(Base):
    """The result of a call that a worker runs."""

    _job = None

    def __init__(self):
        super().__init__()
        self._condition = _Condition()

    def cancel(self):
        job = self._job
        if job is not None and not library.hz_job_cancel(job.handle):
            return False
        self._workers.forget(self)
        is_cancelled = super().cancel()
        with self._condition:
            if self._state == "CANCELLED":
                # Notify threads that wait for several futures.
                self.set_running_or_notify_cancel()
        return is_cancelled

    def running(self):
        job = self._job
        return not self.done() and job is not None and library.hz_job_stage(job.handle) in (RUNNING, ENDED)

    def result(self, timeout=None):
        return self._waited(super().result, timeout)

    def exception(self, timeout=None):
        return self._waited(super().exception, timeout)

    def _waited(self, wait, timeout):
        """Looks for the result for a moment, and then waits for the collector. This very thread may hold the collector up: in a
        finalizer, the interrupted code may hold a lock that the collector wants."""
        job, end, is_late = self._job, timeout and time.monotonic() + timeout, False
        if job is not None:
            self._claim(job, PATIENCE if timeout is None or timeout > 0 else 0)
        while (job := self._job) is not None:
            self._workers.keep_collecting(is_late)
            left = TURN if end is None else end - time.monotonic() if end else 0
            try:
                return wait(min(left, TURN) if left > 0 else 0)
            except TimeoutError:
                if self.done():
                    break
                if end is not None and left <= TURN:
                    raise
            is_late = True
            # The result has come, and nobody is turning it into a value.
            if not job.lookers and library.hz_job_stage(job.handle) == ENDED:
                self._claim(job, 0)
        return wait(timeout)

    def _claim(self, job, patience):
        thread = threading.get_ident()
        # A handler, or a finalizer, in the middle of this very work for this thread. The result may be claimed by the interrupted
        # code, which waits for this.
        is_inside = thread in job.lookers
        try:
            job.lookers.add(thread)
            if library.hz_job_claim(job.handle, patience) or is_inside and library.hz_job_stage(job.handle) == ENDED:
                self._workers.forget(self)
                self._end(job)
        except BaseException:
            # An interrupt of the program. The collector makes it the future's.
            if not self.done():
                self._workers.remember(self)
                library.hz_job_give_back(job.handle)
            raise
        finally:
            if not is_inside:
                job.lookers.discard(thread)

    def collect(self):
        """In the collector."""
        job = self._job
        if job is None:
            return
        try:
            self._claim(job, 0)
        except BaseException as error:
            # An exception of the value's own code as it is made.
            if not self.done():
                self.set_exception(error)

    def _end(self, job):
        is_value, value = job.value()
        try:
            if is_value:
                self.set_result(value)
            else:
                broken = self._workers.broken
                self.set_exception(failure(broken) if broken is not None and _is_abandoned(value) else value)
        except InvalidStateError:
            # It was made this future's before an interrupt came.
            pass
        self._job = None

    cancel.__doc__ = Base.cancel.__doc__
    running.__doc__ = Base.running.__doc__
    result.__doc__ = Base.result.__doc__
    exception.__doc__ = Base.exception.__doc__


class _Beginning:
    """A call that a worker runs before it is open. The last one is the initializer, if it is given."""

    def __init__(self, workers, number, is_last):
        self._workers, self._number, self._is_last = workers, number, is_last
        self._job = None

    def collect(self):
        job = self._job
        library.hz_job_claim(job.handle, 0)
        is_value, value = job.value()
        if not is_value:
            self._workers.broke(value)
        elif self._is_last:
            self._workers.open(self._number)


class Workers:
    """The workers of an executor, and the calls that have not ended. It has no reference to the executor."""

    def __init__(self, most, make_pool, initializer, names):
        self._most, self._make_pool, self._initializer, self._names = most, make_pool, initializer, names
        self._owned = Owned("workers", made("hz_workers_new", b"_hydrozoa_worker", b"run", most))
        self._handle = self._owned.value
        self._tags = itertools.count()
        self._pending = {}
        # Tags that the collector has received.
        self._heard = collections.deque()
        self._making = threading.RLock()
        self.is_shut = False
        self.count = 0
        self.pool = None
        self.broken = None
        self._open = []
        # The interpreters that no worker has, and which one each worker has.
        self._free = collections.deque(range(most))
        self._places = {}
        self.collector = None
        # The collector, once it runs.
        self._begun = None

    def submit(self, data, views):
        """The future of a call that was pickled."""
        self._refuse()
        future = Future()
        future._workers = self
        try:
            self._queue(future, ANY, data, views)
        except Error:
            # Somebody has shut it down meanwhile.
            self._refuse()
            raise
        if self.collector is None:
            try:
                self._start_collector()
            except Exception as error:
                # The call is queued, and hears of it by its future.
                self.broke(error)
        return future

    def _refuse(self):
        if self.broken is not None:
            raise BrokenInterpreterPool("an interpreter or its initializer failed") from self.broken
        if self.is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _queue(self, ending, worker, data, views):
        lent = [_memory.exported(view, not pickling.is_shared(view)) for view in views]
        memory = (LentMemory * len(lent))(*lent) if lent else None
        ending._tag, ending._job = next(self._tags), _Job()
        self._pending[ending._tag] = ending
        try:
            check("hz_workers_submit", self._handle, worker, ending._tag, data, len(data), memory, len(lent), ending._job.place)
        except Error:
            self.forget(ending)
            raise

    def _start_collector(self):
        collector = threading.Thread(target=self._collect, name=f"{self._names}-results", daemon=True)
        self.collector = collector
        collector.start()

    def keep_collecting(self, is_late):
        """Before a thread waits for a result. If it is the collector, in a finalizer or a callback, another one takes over. So it
        does where the collector has not begun by now: this may be a signal's handler that has interrupted its start, which holds a
        lock that the new thread wants."""
        if self.collector is threading.current_thread() or is_late and self.collector is not self._begun:
            self._start_collector()

    def _collect(self):
        """Collects calls that have ended, until all workers have. Then it ends the pool, unless another collector took over."""
        this, tags = threading.current_thread(), (c_uint64 * 256)()
        if self.collector is this:
            self._begun = this
        while True:
            # Also what the one before it has heard.
            while self._heard:
                try:
                    self._hear(self._heard.popleft())
                except IndexError:
                    break
            if self.collector is not this:
                return
            count = library.hz_workers_collect(self._handle, tags, len(tags))
            if not count:
                break
            self._heard.extend(tags[:count])
        self.is_shut = True
        if self.collector is this and self.pool is not None:
            self.pool.close()

    def _hear(self, tag):
        if tag == FEW:
            self._enlist()
        elif (ending := self._pending.pop(tag, None)) is not None:
            ending.collect()

    def _enlist(self):
        """Starts workers for calls that wait."""
        self._let_go()
        while self.count < self._most and self.broken is None:
            # First, since settle() waits for those that start.
            self.count += 1
            try:
                number = c_size_t()
                check("hz_workers_enlist", self._handle, True, byref(number))
                if number.value == ANY:
                    self.count -= 1
                    return
                self._start(number.value)
            except Exception as error:
                self.broke(error)

    def _let_go(self):
        """Forgets workers whose interpreters have crashed."""
        number = c_size_t()
        while library.hz_workers_lost(self._handle, byref(number)):
            lost = number.value
            self._free.append(self._places.pop(lost))
            if lost in self._open:
                self._open.remove(lost)
            self.count -= 1

    def _start(self, number):
        pool = self.usable_pool()
        place = self._places[number] = self._free.popleft()
        self._queue(_Beginning(self, number, self._initializer is None), number, *greeting(pool))
        if self._initializer is not None:
            self._queue(_Beginning(self, number, True), number, *self._initializer)
        owned = pool.owned()
        check("hz_workers_start", self._handle, number, owned.value, place, f"{self._names}_{number}".encode())

    def usable_pool(self):
        """The pool. The first use makes it."""
        is_alone = self._making.acquire(timeout=MAKING)
        try:
            if self.pool is None:
                pool = self._make_pool()
                if self.pool is None:
                    self.pool = pool
                else:
                    pool.close()
            return self.pool
        finally:
            if is_alone:
                self._making.release()

    def open(self, number):
        library.hz_workers_open(self._handle, number)
        self._open.append(number)

    @property
    def opened(self):
        return len(self._open)

    def broke(self, error):
        if self.broken is not None:
            return
        self.broken = error
        logger.critical("Exception in initializer:", exc_info=error)
        library.hz_workers_abandon(self._handle)

    def forget(self, future):
        self._pending.pop(future._tag, None)

    def remember(self, future):
        self._pending[future._tag] = future

    def interrupt(self):
        # One that makes its interpreter ready would break the executor.
        return sum(library.hz_workers_interrupt(self._handle, number) for number in list(self._open))

    def end(self):
        """Lets the workers end."""
        self.is_shut = True
        library.hz_workers_close(self._handle)
        # Otherwise the collector ends it, after the workers.
        if self.collector is None and self.pool is not None:
            self.pool.close()

    def join(self):
        """Waits until the workers and their interpreters have ended."""
        collector = None
        # A forked child has none, and another one may take over.
        while collector is not self.collector:
            collector = self.collector
            # Objects of the pool end with it, and one of them may call this on the collector's own thread. A collector whose start
            # a handler interrupts has not started.
            if collector is threading.current_thread() or not collector.is_alive():
                return
            collector.join()

    def cancel(self):
        for ending in list(self._pending.values()):
            if isinstance(ending, Future):
                ending.cancel()

    def left_behind(self):
        """In the child of a fork: submitted calls never run, and a thread of the parent may have held a lock of the library."""
        self._making = threading.RLock()
        self.pool = None
        self.broken = RuntimeError("this process is a forked child, and the executor is its parent's: make one here")
        self.collector = None
        self._owned.end.detach()
        # NULL, which the library accepts.
        self._handle = None
        self._open.clear()
        for ending in self._pending.values():
            ending._job = None
