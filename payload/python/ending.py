"""The work after the functions of `atexit`, before CPython cuts other threads off."""

import io
import os
import sys
import time
from _thread import allocate_lock, start_new_thread

# Seconds that streams may take for what they hold, as CPython's own patience is, and a process for its end. It may have
# only just started.
PATIENCE = 1
PROCESS_PATIENCE = 5


_flushers = []


def begin(threads):
    """There are other threads when the interpreter begins to end. Threads that flush streams are started now: CPython starts none
    any more when functions of `atexit` are called (since 3.12)."""
    _flushers.extend([Flusher(), Flusher()])


def end(threads):
    """Ends what serves this interpreter alone. With other `threads`, returns streams that no thread uses, and those before."""
    end_servers()
    subprocess = sys.modules.get("subprocess")
    if subprocess is not None:
        # Those whose objects are gone, and that have ended meanwhile.
        subprocess._cleanup()
    return new_streams() if threads else None


def end_servers():
    """Ends multiprocessing's helpers. CPython leaves them to the end of the process. They end when the other end of
    their pipes is closed everywhere."""
    modules = [sys.modules.get(f"multiprocessing.{name}") for name in ("forkserver", "resource_tracker")]
    for server, descriptor, process in [
        (getattr(modules[0], "_forkserver", None), "_forkserver_alive_fd", "_forkserver_pid"),
        (getattr(modules[1], "_resource_tracker", None), "_fd", "_pid"),
    ]:
        pipe, child = getattr(server, descriptor, None), getattr(server, process, None)
        if pipe is not None and child is not None:
            setattr(server, descriptor, None)
            setattr(server, process, None)
            os.close(pipe)
            reap(child)


def reap(child):
    until = time.monotonic() + PROCESS_PATIENCE
    try:
        while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < until:
            time.sleep(0.001)
    except ChildProcessError:
        pass  # The application has reaped it, or another process has started it.


def new_streams():
    before = [sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__]
    standard = [sys.__stdout__, sys.__stderr__]
    # Threads that print use these, so that the former ones become free.
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = between = [renewed(stream) for stream in standard]
    until = time.monotonic() + PATIENCE
    for flusher, stream in zip(_flushers, standard):
        flusher.start(stream)
    free = [flusher.has_flushed(until) for flusher in _flushers] or [True, True]
    out, err = [renewed(stream) if is_free else None for stream, is_free in zip(standard, free)]
    return out, out, err, err, before, between


class Flusher:
    """A thread that flushes a stream. Another one may be in a write that never returns, and has the stream's lock."""

    def __init__(self):
        self._has_stream, self._has_flushed = allocate_lock(), allocate_lock()
        self._has_stream.acquire()
        self._has_flushed.acquire()
        start_new_thread(self._run, ())

    def _run(self):
        self._has_stream.acquire()
        try:
            self._stream.flush()
        except Exception:
            pass  # Its contents are lost.
        self._has_flushed.release()

    def start(self, stream):
        self._stream = stream
        self._has_stream.release()

    def has_flushed(self, until):
        return self._has_flushed.acquire(timeout=max(until - time.monotonic(), 0))


def renewed(stream):
    """A stream for the same bytes that has a lock of its own. One without a lock stays as it is."""
    try:
        raw = stream.buffer.raw
        text = io.TextIOWrapper(
            io.BufferedWriter(raw), stream.encoding, stream.errors, "\n", stream.line_buffering, stream.write_through
        )
        text.mode = "w"
        return text
    except (AttributeError, ValueError):
        return stream
