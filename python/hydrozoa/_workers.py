"""Threads of the C library that run calls in interpreters, and the futures of these calls.

A worker waits for calls and runs them without this Python's GIL. What a call has returned is made a value here: by the thread that
waits for it at that moment, or else by one thread that collects the results.
"""

import ctypes
import itertools
import logging
import threading
import weakref
from concurrent.futures import BrokenExecutor, Future as Base, InvalidStateError
from ctypes import byref, c_size_t, c_uint64

from . import _memory
from . import _pickling as pickling
from ._library import Answer, Memory, check, library, made, status_of, taken
from ._pool import greeting, outcome

# How many microseconds a thread that wants a result looks for it before it sleeps. To wake it up again takes longer than a short call.
PATIENCE = 50

ANY = c_size_t(-1).value
RUNNING, ENDED = 1, 2

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
    """A call that was queued."""

    __slots__ = ("handle",)

    def __init__(self, handle):
        self.handle = handle

    def __del__(self, free=library):
        free.hz_job_free(self.handle)

    def value(self):
        """Whether there is a value, and that or an exception."""
        answer = Answer()
        status, error = status_of("hz_job_answer", self.handle, byref(answer))
        if status:
            return False, taken(status, error)
        data = ctypes.string_at(answer.data, answer.len)
        views = [_memory.borrowed(made("hz_job_buffer", self.handle, index)) for index in range(answer.buffers)]
        return outcome(data, views)


class Future(Base):
    """The result of a call that a worker runs."""

    _job = None

    def cancel(self):
        job = self._job
        if job is not None and not library.hz_job_cancel(job.handle):
            return False
        self._workers.forget(self)
        is_cancelled = super().cancel()
        with self._condition:
            if self._state == "CANCELLED":
                # Who waits for several futures hears of it.
                self.set_running_or_notify_cancel()
        return is_cancelled

    def running(self):
        job = self._job
        return not self.done() and job is not None and library.hz_job_stage(job.handle) in (RUNNING, ENDED)

    def result(self, timeout=None):
        if self._job is not None:
            self._look(timeout)
        return super().result(timeout)

    def exception(self, timeout=None):
        if self._job is not None:
            self._look(timeout)
        return super().exception(timeout)

    def _look(self, timeout):
        """Looks for the result for a moment, and makes it this future's."""
        job = self._job
        patience = PATIENCE if timeout is None or timeout > 0 else 0
        try:
            if job is not None and library.hz_job_claim(job.handle, patience):
                self._workers.forget(self)
                self._end(job)
        except BaseException:
            # An interrupt of the program. The collector makes it the future's.
            if job is not None and not self.done():
                self._workers.remember(self)
                library.hz_job_give_back(job.handle)
            raise

    def collect(self):
        """In the collector."""
        job = self._job
        if job is not None and library.hz_job_claim(job.handle, 0):
            try:
                self._end(job)
            except BaseException as error:
                # What a value's own code raises as it is made.
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
    """What a worker runs before it is open: in the end the initializer, if there is one."""

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
        self._handle = None
        self._tags = itertools.count()
        self._pending = {}
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._is_shut = False
        self._is_started = False
        # Workers that have no thread yet, until there is a pool.
        self._waiting = []
        self.count = 0
        self.pool = None
        self.broken = None
        self._open = []
        self.collector = None

    def submit(self, data, views):
        """The future of a call that was pickled."""
        lent = [_memory.exported(view, not pickling.is_shared(view)) for view in views]
        with self._lock:
            try:
                if self.broken is not None:
                    raise BrokenInterpreterPool("an interpreter or its initializer failed") from self.broken
                if self._is_shut:
                    raise RuntimeError("cannot schedule new futures after shutdown")
                if self._handle is None:
                    self._begin()
            except BaseException:
                for memory in lent:
                    memory.release(memory.context)
                raise
            future = Future()
            future._workers = self
            self._queue(future, ANY, data, lent)
            failed = None
            if self.count < self._most and library.hz_workers_are_few(self._handle):
                try:
                    self._enlist()
                except Exception as error:
                    failed = error
        if failed is not None:
            # The call is queued, and hears of it by its future.
            self.broke(failed)
        return future

    def _begin(self):
        self._handle = made("hz_workers_new", b"_hydrozoa_worker", b"run")
        self._end = weakref.finalize(self, library.hz_workers_free, self._handle)
        self._end.atexit = False

    def _queue(self, ending, worker, data, lent=()):
        tag = next(self._tags)
        ending._tag = tag
        self._pending[tag] = ending
        memory = (Memory * len(lent))(*lent) if lent else None
        ending._job = _Job(made("hz_workers_submit", self._handle, worker, tag, data, len(data), memory, len(lent)))

    def _enlist(self):
        number = c_size_t()
        check("hz_workers_enlist", self._handle, byref(number))
        self.count += 1
        if self._is_started:
            self._start(number.value)
            return
        self._waiting.append(number.value)
        if self.collector is None:
            self.collector = threading.Thread(target=_collect, args=(self,), name=f"{self._names}-results", daemon=True)
            self.collector.start()

    def _start(self, number):
        first = _Beginning(self, number, self._initializer is None)
        self._queue(first, number, greeting(self.pool))
        if self._initializer is not None:
            data, views = self._initializer
            lent = [_memory.exported(view, not pickling.is_shared(view)) for view in views]
            self._queue(_Beginning(self, number, True), number, data, lent)
        check("hz_workers_start", self._handle, number, self.pool.handle, number, f"{self._names}_{number}".encode())

    def usable_pool(self):
        """The pool. The first who needs it makes it."""
        with self._making:
            if self.pool is None:
                self.pool = self._make_pool()
            return self.pool

    def start(self):
        """Makes the pool, and starts the workers that wait for it."""
        self.usable_pool()
        with self._lock:
            self._is_started = True
            waiting, self._waiting = self._waiting, []
            for number in waiting:
                self._start(number)

    def open(self, number):
        library.hz_workers_open(self._handle, number)
        self._open.append(number)

    @property
    def opened(self):
        return len(self._open)

    def broke(self, error):
        with self._lock:
            if self.broken is not None:
                return
            self.broken = error
        logger.critical("Exception in initializer:", exc_info=error)
        library.hz_workers_abandon(self._handle)

    def forget(self, future):
        self._pending.pop(future._tag, None)

    def remember(self, future):
        self._pending[future._tag] = future

    def collect(self):
        """Ends calls until all workers have ended."""
        tags = (c_uint64 * 256)()
        while count := library.hz_workers_collect(self._handle, tags, len(tags)):
            for tag in tags[:count]:
                ending = self._pending.pop(tag, None)
                if ending is not None:
                    if ending._job is None:
                        # It has ended before the thread that submits it has its handle.
                        self._lock.acquire()
                        self._lock.release()
                    ending.collect()
                del ending
        with self._lock:
            self._is_shut = True
            pool = self.pool
        if pool is not None:
            pool.close()

    def interrupt(self):
        if self._handle is None:
            return 0
        # One that makes its interpreter ready would break the executor.
        return sum(library.hz_workers_interrupt(self._handle, number) for number in list(self._open))

    def close(self):
        # After a call that is being submitted.
        with self._lock:
            self._is_shut = True
        self.end()

    def end(self):
        """Lets the workers end. It takes no lock: the executor may be garbage that is found by a thread that has it."""
        self._is_shut = True
        if self._handle is not None:
            library.hz_workers_close(self._handle)
        # Otherwise the collector ends it, after the workers.
        if self.collector is None and self.pool is not None:
            self.pool.close()

    def join(self):
        """Waits until the workers and their interpreters have ended."""
        collector = self.collector
        # A forked child has none. What the pool has ends with the pool, and may be what ends this.
        if collector is not None and collector is not threading.current_thread():
            collector.join()

    def cancel(self):
        for ending in list(self._pending.values()):
            if isinstance(ending, Future):
                ending.cancel()

    @property
    def is_shut(self):
        return self._is_shut

    def left_behind(self):
        """In the child of a fork: nobody will run what is submitted, and another thread may have had a lock of the library's."""
        self._lock, self._making = threading.Lock(), threading.Lock()
        self.pool = None
        self.broken = RuntimeError("this process is a forked child, and the executor is its parent's: make one here")
        self.collector = None
        if self._handle is not None:
            self._end.detach()
            self._handle = None
        for ending in self._pending.values():
            ending._job = None


def _collect(workers):
    try:
        workers.start()
    except BaseException as error:
        workers.broke(error)
    workers.collect()
