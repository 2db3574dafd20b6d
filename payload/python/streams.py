"""`sys.stdin`, `sys.stdout` and `sys.stderr` of an interpreter as streams of the application (`Builder::stdout` and its like)."""

import io
import sys


class _Raw(io.RawIOBase):
    """Bytes to or from the application."""

    def __init__(self, stream, name, mode):
        self._stream = stream
        self.name = name
        self.mode = mode

    def readable(self):
        return self.mode == "rb"

    def writable(self):
        return self.mode == "wb"

    def readinto(self, buffer):
        self._checkReadable()
        return self._stream.readinto(buffer)

    def write(self, data):
        self._checkWritable()
        # A copy, which no other thread changes while the application reads it. No bytes would mean a flush.
        data = bytes(data)
        return self._stream.write(data) if data else 0

    def flush(self):
        super().flush()
        if self.writable():
            self._stream.write(b"")


def install(name, stream):
    """Replaces `sys.NAME` by a stream of the application, and flushes the former one."""
    former = getattr(sys, name, None)
    raw = _Raw(stream, f"<{name}>", "rb" if name == "stdin" else "wb")
    # As CPython makes its own (`create_stdio` in Python/pylifecycle.c), but always UTF-8 and by lines.
    if name == "stdin":
        text = io.TextIOWrapper(io.BufferedReader(raw), "utf-8", "strict")
        text.mode = "r"
    else:
        errors = "backslashreplace" if name == "stderr" else "strict"
        # True where python runs without buffers (`-u`).
        unbuffered = getattr(former, "write_through", False)
        buffered = raw if unbuffered else io.BufferedWriter(raw)
        text = io.TextIOWrapper(
            buffered, "utf-8", errors, "\n", line_buffering=not unbuffered, write_through=unbuffered
        )
        text.mode = "w"
    if former is not None and name != "stdin":
        former.flush()
    setattr(sys, name, text)
    setattr(sys, f"__{name}__", text)
