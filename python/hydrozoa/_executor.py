"""An executor whose workers are interpreters."""

import itertools
import logging
import os
import queue
import threading
import time
import weakref
from concurrent.futures import BrokenExecutor, Executor as Base, Future

from . import _pickling as pickling
from ._pool import Pool, budget, refuse_inside

try:
    from threading import _register_atexit as register_at_exit
except ImportError:  # pragma: no cover
    from atexit import register as register_at_exit


class BrokenInterpreterPool(BrokenExecutor):
    """An initializer has raised, or an interpreter did not start. Nothing more is run."""


logger = logging.getLogger("concurrent.futures")


class _Work:
    """A call that was pickled, and the future of its result."""

    __slots__ = ("future", "data", "views")

    def __init__(self, future, data, views):
        self.future, self.data, self.views = future, data, views

    def begin(self):
        """Whether it is to be run: it was not cancelled, and cannot be from now on."""
        return self.future.set_running_or_notify_cancel()

    def run(self, session):
        try:
            result = session.begin(self.data, self.views)
            self.data = self.views = None
            value = session.finish(result)
            del result
            session.collect()
        except BaseException as error:
            self.future.set_exception(error)
            # The frame, its future and the exception are a cycle.
            self = None
        else:
            self.future.set_result(value)


_executors = weakref.WeakSet()


def _end_all():
    for executor in list(_executors):
        executor.shutdown(wait=True)


register_at_exit(_end_all)


def _forked():
    """In the child of a fork. The workers' threads are not there."""
    for executor in list(_executors):
        executor._shared.left_behind()


os.register_at_fork(after_in_child=_forked)


def _work(shared, index):
    """The life of a worker's thread. It has no reference to the executor."""
    # A call has begun while its interpreter starts.
    work = shared.queue.get()
    if work is None:
        # The next worker ends too.
        shared.queue.put(None)
        return
    is_wanted = work.begin()
    try:
        session = shared.pool().session(index)
        if shared.initializer is not None:
            session.finish(session.begin(*shared.initializer))
    except BaseException as error:
        logger.critical("Exception in initializer:", exc_info=True)
        shared.broke(error)
        if is_wanted:
            work.future.set_exception(_failure(error))
        return
    shared.sessions[index] = session
    try:
        while True:
            if is_wanted:
                work.run(session)
            del work
            shared.idle.release()
            work = shared.queue.get()
            if work is None:
                break
            is_wanted = work.begin()
    finally:
        del shared.sessions[index]
        session.close()
        # The next worker ends too.
        shared.queue.put(None)


def _failure(error):
    failure = BrokenInterpreterPool("an interpreter or its initializer failed; nothing more is run")
    failure.__cause__ = error
    return failure


class _Shared:
    """What an executor and its threads have in common."""

    def __init__(self, make_pool, initializer):
        self.queue = queue.SimpleQueue()
        self.idle = threading.Semaphore(0)
        self.lock = threading.Lock()
        self.initializer = initializer
        self.broken = None
        self.sessions = {}
        self._make_pool = make_pool
        self._pool = None

    def pool(self):
        with self.lock:
            if self._pool is None:
                self._pool = self._make_pool()
            return self._pool

    def close(self):
        with self.lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def left_behind(self):
        """In the child of a fork: nobody will run what is submitted."""
        self.lock = threading.Lock()
        self.sessions = {}
        self.broken = RuntimeError("this process is a forked child, and the executor is its parent's: make one here")

    def broke(self, error):
        with self.lock:
            first, self.broken = self.broken is None, self.broken or error
        if first:
            while True:
                try:
                    work = self.queue.get_nowait()
                except queue.Empty:
                    return
                if work is not None and work.begin():
                    work.future.set_exception(_failure(error))


class Executor(Base):
    """Runs calls in interpreters of this process, each with a GIL of its own.

    `max_workers` interpreters start when they are first needed; by default one for each processor that the process may use.
    `python` and `venv` name another Python or virtual environment than this one's. `torch` is "auto", "isolated" or "shared".
    Libraries of one interpreter (OpenMP, BLAS, torch) start `inner_threads` threads; by default its share of the processors,
    unless variables such as OMP_NUM_THREADS say otherwise. Interpreters have the environment variables of this process as
    they are when the first call begins. `settle_in` is a directory on a local disk for settle().

    Functions, arguments and results go as pickles. Arrays, and tensors in main memory, are not copied: what is passed in is
    read-only in the interpreter, what is returned is not.
    """

    def __init__(self, max_workers=None, initializer=None, initargs=(), *, thread_name_prefix="", python=None, venv=None,
                 torch="auto", import_profile=None, inner_threads=None, settle_in=None):
        refuse_inside()
        if max_workers is None:
            max_workers = len(os.sched_getaffinity(0))
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        budget(max_workers, inner_threads)
        self._max_workers = max_workers
        options = dict(python=python, venv=venv, torch=torch, import_profile=import_profile, inner_threads=inner_threads,
                       settle_in=settle_in)
        begun = pickling.dumps((initializer, tuple(initargs), {})) if initializer is not None else None
        self._shared = _Shared(lambda: Pool(max_workers, **options), begun)
        self._threads = []
        self._names = thread_name_prefix or f"hydrozoa-{next(_counter)}"
        self._is_shut = False
        # Threads of an executor that is forgotten end.
        self._forgotten = weakref.finalize(self, self._shared.queue.put, None)
        self._forgotten.atexit = False
        _executors.add(self)

    def submit(self, fn, /, *args, **kwargs):
        return self.submit_pickled(*pickling.dumps((fn, args, kwargs)))

    def submit_pickled(self, data, views):
        """Schedules a call that was pickled: a function, its arguments and its keywords, and the memory beside them."""
        with self._shared.lock:
            if self._shared.broken is not None:
                raise BrokenInterpreterPool("an interpreter or its initializer failed") from self._shared.broken
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future = Future()
            self._shared.queue.put(_Work(future, data, views))
            self._start_thread()
        return future

    def _start_thread(self):
        if self._shared.idle.acquire(blocking=False) or len(self._threads) == self._max_workers:
            return
        index = len(self._threads)
        thread = threading.Thread(target=_work, args=(self._shared, index), name=f"{self._names}_{index}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def map(self, fn, *iterables, timeout=None, chunksize=1, **more):
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **more)
        chunks = super().map(_chunk, itertools.repeat(fn), _chunks(zip(*iterables), chunksize), timeout=timeout, **more)
        return itertools.chain.from_iterable(chunks)

    def shutdown(self, wait=True, *, cancel_futures=False):
        with self._shared.lock:
            self._is_shut = True
            if cancel_futures:
                while True:
                    try:
                        work = self._shared.queue.get_nowait()
                    except queue.Empty:
                        break
                    if work is not None:
                        work.future.cancel()
            self._shared.queue.put(None)
        if wait:
            for thread in self._threads:
                # A forked child has none of them.
                if thread.is_alive():
                    thread.join()
            self._shared.close()

    def settle(self):
        """Moves memory of the interpreters to files in `settle_in`, from which the kernel reads what is used again. Call it when
        calls have done once what they do, and none runs. The bytes that are left in memory."""
        pool = self._shared.pool()
        # A worker that is starting is inside of its interpreter.
        while len(self._shared.sessions) < len(self._threads) and not self._broken and not self._is_shut:
            time.sleep(0.001)
        return pool.settle()

    def interrupt(self):
        """Raises KeyboardInterrupt in the calls that run. Native code goes on until it returns. The number of these calls."""
        return sum(session.interrupt() for session in list(self._shared.sessions.values()))

    def __exit__(self, kind, error, traceback):
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.shutdown(wait=False, cancel_futures=True)
            self.interrupt()
        return super().__exit__(kind, error, traceback)

    @property
    def _broken(self):
        # As ThreadPoolExecutor has it.
        return self._shared.broken is not None

    shutdown.__doc__ = Base.shutdown.__doc__
    submit.__doc__ = Base.submit.__doc__


_counter = itertools.count()


def _chunks(rows, size):
    rows = iter(rows)
    while chunk := tuple(itertools.islice(rows, size)):
        yield chunk


def _chunk(fn, rows):
    return [fn(*row) for row in rows]
