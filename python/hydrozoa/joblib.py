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

from . import _pickling as pickling
from ._executor import Executor

# Seconds after which interpreters that nobody uses end, as loky has it.
IDLE = 300

# What Executor takes. Other options of joblib are for processes and their files.
_OPTIONS = ("initializer", "initargs", "python", "venv", "torch", "import_profile")


class _Reusable:
    """One executor for successive calls with the same options."""

    def __init__(self):
        self._lock = threading.Lock()
        self._key = self._executor = self._timer = None
        self._users = weakref.WeakSet()

    def get(self, user, workers, options):
        key = (workers, tuple(sorted(options.items(), key=lambda option: option[0])))
        with self._lock:
            self._stop_timer()
            if self._executor is None or self._key != key or self._executor._broken:
                self._end()
                self._key, self._executor = key, Executor(workers, **options)
            self._users.add(user)
            return self._executor

    def leave(self, user, executor, idle):
        """`user` needs the executor no longer."""
        with self._lock:
            self._users.discard(user)
            if executor is self._executor and not self._users:
                self._stop_timer()
                self._timer = threading.Timer(idle, self._expire, (executor,))
                self._timer.daemon = True
                self._timer.start()

    def abort(self, executor):
        """Ends the executor's calls. The next call has a new one."""
        with self._lock:
            if executor is self._executor:
                self._key = self._executor = None
        executor.shutdown(wait=False, cancel_futures=True)
        executor.interrupt()

    def _expire(self, executor):
        with self._lock:
            if executor is self._executor and not self._users:
                self._end()

    def _end(self):
        if self._executor is not None:
            # Calls that another thread waits for still run.
            self._executor.shutdown(wait=False)
        self._key = self._executor = None

    def _stop_timer(self):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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
        self.parallel = parallel
        return n_jobs

    def submit(self, func, callback=None):
        future = self._workers.submit_pickled(*pickling.dumps((_run, (func,), {}), self._least))
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
        _reusable.abort(self._workers)
        self._workers = None
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel, **self.parallel._backend_kwargs)


register_parallel_backend("hydrozoa", HydrozoaBackend)
