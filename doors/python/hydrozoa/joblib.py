"""joblib's calls in interpreters: import this module, then `joblib.parallel_config("hydrozoa")`.

The interpreters stay between calls, as loky's processes do. Arrays of at least `max_nbytes` bytes (joblib's own option, 1 MB) are
not copied and are read-only, smaller ones are copied.
"""

import os
import sys
import threading
import warnings
import weakref

from joblib._parallel_backends import AutoBatchingMixin, FallbackToBackend, ParallelBackendBase, SequentialBackend
from joblib.disk import memstr_to_bytes
from joblib.parallel import cpu_count, register_parallel_backend

import _hydrozoa_pickling as pickling

from ._executor import Executor

# Seconds after which interpreters that nobody uses end, as loky has it.
IDLE = 300

# The options of Executor. Other options of joblib are for processes and their files.
_OPTIONS = ("initializer", "initargs", "python", "venv", "import_profile")


class _ReusedExecutor:
    """An executor, and the backends that use it."""

    def __init__(self, key, executor):
        self.key, self.executor = key, executor
        self.users = weakref.WeakSet()
        self.timer = None

    def stop_timer(self):
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()


class _Reusable:
    """Executors for successive calls, one for each set of options that is in use, and the last one that was."""

    def __init__(self):
        # A finalizer, or a signal's handler, may begin a loop in the middle of this for the same thread.
        self._lock = threading.RLock()
        self._entries = []

    def get(self, user, workers, options):
        key = (workers, options)
        with self._lock:
            for entry in [entry for entry in self._entries if entry.executor._broken]:
                self._drop(entry)
            found = None
            while found not in self._entries:
                found = next((entry for entry in self._entries if entry.key == key), None)
                if found is None:
                    found = _ReusedExecutor(key, Executor(workers, **options))
                    self._entries.append(found)
                # Nobody ends it from here on.
                found.users.add(user)
            found.stop_timer()
            for entry in [entry for entry in self._entries if not entry.users]:
                self._end(entry)
            return found.executor

    def leave(self, user, executor, idle):
        """`user` needs the executor no longer."""
        with self._lock:
            for entry in list(self._entries):
                if entry.executor is executor:
                    entry.users.discard(user)
                    if not entry.users:
                        entry.stop_timer()
                        entry.timer = threading.Timer(idle, self._expire, (entry,))
                        entry.timer.daemon = True
                        entry.timer.start()

    def abort(self, user, executor):
        """Ends the executor's calls, unless other loops use it. The next loop then gets a new one. Returns whether it did."""
        with self._lock:
            for entry in [entry for entry in self._entries if entry.executor is executor]:
                entry.users.discard(user)
                if entry.users:
                    return False
                self._drop(entry)
        executor.shutdown(wait=False, cancel_futures=True)
        executor.interrupt()
        return True

    def _expire(self, entry):
        with self._lock:
            if entry in self._entries and not entry.users:
                self._end(entry)

    def _end(self, entry):
        self._drop(entry)
        entry.executor.shutdown(wait=False)

    def _drop(self, entry):
        entry.stop_timer()
        if entry in self._entries:
            self._entries.remove(entry)


_reusable = _Reusable()


def _forked():
    """A forked child has none of the workers' threads."""
    global _reusable
    _reusable = _Reusable()


os.register_at_fork(after_in_child=_forked)


def _run(batch):
    """Calls a batch in an interpreter, which has imported this module then and knows the backend."""
    return batch()


class HydrozoaBackend(AutoBatchingMixin, ParallelBackendBase):
    """joblib's backend over an `Executor`."""

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    _workers = None

    def effective_n_jobs(self, n_jobs):
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if "_hydrozoa_worker" in sys.modules:
            if n_jobs != 1:
                warnings.warn("Hydrozoa-backed parallel loops cannot be nested in an interpreter, setting n_jobs=1", stacklevel=3)
            return 1
        return max(cpu_count() + 1 + n_jobs, 1) if n_jobs < 0 else n_jobs

    def configure(self, n_jobs=1, parallel=None, prefer=None, require=None, idle_worker_timeout=None, max_nbytes="1M",
                  **options):
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        options = {**self.backend_kwargs, **options}
        self._idle = options.get("idle_worker_timeout") if idle_worker_timeout is None else idle_worker_timeout
        if isinstance(max_nbytes, str):
            max_nbytes = memstr_to_bytes(max_nbytes)
        # Without a limit nothing is shared.
        self._least = sys.maxsize if max_nbytes is None or options.get("mmap_mode") == "c" else max_nbytes
        wanted = {name: options[name] for name in _OPTIONS if name in options}
        self._workers = _reusable.get(self, n_jobs, {**wanted, "inner_threads": self.inner_max_num_threads})
        self._futures = set()
        self.parallel = parallel
        return n_jobs

    def submit(self, func, callback=None):
        future = self._workers.submit_pickled(*pickling.dumps((_run, (func,), {}), self._least))
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out):
        return out.result()

    def terminate(self):
        if self._workers is not None:
            _reusable.leave(self, self._workers, IDLE if self._idle is None else self._idle)
            self._workers = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready=True):
        if not _reusable.abort(self, self._workers):
            for future in list(self._futures):
                future.cancel()
        self._workers = None
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel, **self.parallel._backend_kwargs)


register_parallel_backend("hydrozoa", HydrozoaBackend)
