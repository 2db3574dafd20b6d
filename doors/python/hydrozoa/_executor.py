"""An executor whose workers are interpreters."""

import itertools
import os
import threading
import time
import weakref
from concurrent.futures import Executor as Base

import _hydrozoa_pickling as pickling

from . import _asynchronous
from ._pool import Pool, budget, refuse_inside
from ._library import Error, living
from ._workers import BrokenInterpreterPool, Workers
from ._shared import Package, share

try:
    from threading import _register_atexit as register_at_exit
except ImportError:  # pragma: no cover
    from atexit import register as register_at_exit

# Seconds within which a worker frees dropped objects, unless it runs a call.
_LEAVING = 0.1

_executors = weakref.WeakValueDictionary()


def _end_all():
    for executor in living(_executors):
        executor.shutdown(wait=True)


register_at_exit(_end_all)


def _forked():
    """In the child of a fork. The workers' threads are not there."""
    for executor in living(_executors):
        executor._workers.left_behind()


os.register_at_fork(after_in_child=_forked)


class Executor(Base):
    """Runs calls in interpreters of this process, each with a GIL of its own.

    `max_workers` interpreters start when they are first needed; by default one for each processor that the process may use.
    `python` and `venv` name another Python or virtual environment than this one's.
    Libraries of one interpreter (OpenMP, BLAS, torch) start `inner_threads` threads; by default its share of the processors,
    unless variables such as OMP_NUM_THREADS say otherwise. Interpreters have the environment variables of this process as
    they are when the first call begins.

    With `dense`, a directory on a local disk, memory that an interpreter does not use moves to files there while nobody calls it. The
    files have no names, and hold copies of Python's memory, secrets included.

    With `contain_crashes` a crash in an interpreter's native code is a `CrashedInterpreter` of the call that it has met, where nothing
    that all share is damaged, and another interpreter starts when a call needs it. Otherwise a crash ends the process.

    Functions, arguments and results go as pickles. Arrays, and tensors in main memory, are not copied: arguments are read-only
    in the interpreter, results are writable.
    """

    def __init__(self, max_workers=None, initializer=None, initargs=(), *, thread_name_prefix="", python=None, venv=None,
                 import_profile=None, inner_threads=None, dense=None, contain_crashes=False):
        refuse_inside()
        if max_workers is None:
            max_workers = len(os.sched_getaffinity(0))
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        budget(max_workers, inner_threads)
        self._max_workers = max_workers
        options = dict(python=python, venv=venv, import_profile=import_profile, inner_threads=inner_threads,
                       dense=dense, contain_crashes=contain_crashes)
        begun = pickling.dumps((initializer, tuple(initargs), {})) if initializer is not None else None
        names = thread_name_prefix or f"hydrozoa-{next(_counter)}"
        self._workers = Workers(max_workers, lambda: Pool(max_workers, **options), begun, names)
        # When an executor is forgotten, its workers end.
        self._forgotten = weakref.finalize(self, self._workers.end)
        self._forgotten.atexit = False
        _executors[id(self)] = self

    def submit(self, fn, /, *args, **kwargs):
        return self.submit_pickled(*pickling.dumps((fn, args, kwargs)))

    def submit_pickled(self, data, views):
        """Schedules a call that was pickled: a function, its arguments and its keywords, and the memory beside them."""
        return self._workers.submit(data, views)

    def map(self, fn, *iterables, timeout=None, chunksize=1, **more):
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **more)
        chunks = super().map(_chunk, itertools.repeat(fn), _chunks(zip(*iterables), chunksize), timeout=timeout, **more)
        return itertools.chain.from_iterable(chunks)

    def amap(self, fn, /, *iterables, limit=None):
        """The results of `map`, for `async for`. The iterables may be asynchronous, and are read as results are taken: at most
        `limit` calls are ahead, by default twice the number of workers. Leaving the loop cancels calls that have not begun."""
        limit = 2 * self._max_workers if limit is None else limit
        if limit < 1:
            raise ValueError("limit must be >= 1.")
        return _asynchronous.results(self, fn, iterables, limit)

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._workers.end()
        if cancel_futures:
            self._workers.cancel()
        if wait:
            self._workers.join()

    def share(self, object, /):
        """An object for all interpreters, with its memory in one place: a `Shared`."""
        return share(self, self._usable_pool(), object)

    def load_package(self, file, /):
        """Opens a file written by torch.package: a `Package`."""
        return Package(self, self._usable_pool(), file)

    def _usable_pool(self):
        workers = self._workers
        if workers.is_shut:
            raise RuntimeError("the executor is shut down")
        if workers.broken is not None:
            raise BrokenInterpreterPool("an interpreter or its initializer failed") from workers.broken
        return workers.usable_pool()

    def settle(self):
        """Moves memory of the interpreters to files in the directory `dense`, from which the kernel reads a page when it is used again.
        Call it after a first round of typical calls, while none runs. Returns the bytes that are left in memory."""
        workers = self._workers
        # A worker that is starting is inside of its interpreter.
        while workers.opened < workers.count and workers.broken is None and not workers.is_shut:
            time.sleep(0.001)
        if workers.pool is None:
            return 0
        end = time.monotonic() + _LEAVING
        while True:
            try:
                return workers.pool.settle()
            except Error:
                # A worker frees dropped objects just now, or a call runs.
                if time.monotonic() > end:
                    raise
            time.sleep(0.001)

    def interrupt(self):
        """Raises KeyboardInterrupt in the running calls. Native code goes on until it returns. Returns their number."""
        return self._workers.interrupt()

    def __exit__(self, kind, error, traceback):
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.shutdown(wait=False, cancel_futures=True)
            self.interrupt()
        return super().__exit__(kind, error, traceback)

    @property
    def _broken(self):
        # The same attribute as ThreadPoolExecutor's.
        return self._workers.broken is not None

    shutdown.__doc__ = Base.shutdown.__doc__
    submit.__doc__ = Base.submit.__doc__


def load_package(file, max_workers=None, **options):
    """Opens a file written by torch.package, on an executor of its own, which ends when the package is closed."""
    executor = Executor(max_workers, **options)
    try:
        return Package(executor, executor._usable_pool(), file, is_own=True)
    except BaseException:
        executor.shutdown()
        raise


_counter = itertools.count()


def _chunks(rows, size):
    rows = iter(rows)
    while chunk := tuple(itertools.islice(rows, size)):
        yield chunk


def _chunk(fn, rows):
    return [fn(*row) for row in rows]
