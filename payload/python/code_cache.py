"""Compiled code in a folder of the user, which stays within a limit: the least recently used entries go first."""

import marshal
import os
import time

LIMIT = 256 << 20
"""The most bytes that all entries may have."""

_WRITES = 128
"""After how many entries of its own an interpreter looks at the folder again."""

_DAY = 24 * 3600

_written = 0


def find(entry, head):
    """The code under a head, in a tuple; None if not found. A used entry gets today's time."""
    try:
        with open(entry, "rb") as file:
            kept, code = marshal.loads(file.read())
            if kept != head:
                return None
            if time.time() - os.fstat(file.fileno()).st_mtime > _DAY:
                os.utime(entry)
        return (code,)
    except (OSError, EOFError, ValueError, TypeError):
        return None


def keep(entry, head, code):
    """Writes an entry. One that cannot be written is made again by the next who needs it."""
    global _written
    data = marshal.dumps((head, code))
    temporary = f"{entry}.{os.getpid()}.{id(data)}"
    try:
        os.makedirs(os.path.dirname(entry), mode=0o700, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, entry)
    except OSError:
        _remove(temporary)
    if _written % _WRITES == 0:
        _shrink(os.path.dirname(entry))
    _written += 1


def _shrink(folder):
    """Removes entries, also those that nobody finished, until they have three quarters of the limit, if they are beyond it."""
    entries = []
    try:
        with os.scandir(folder) as found:
            for entry in found:
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # Another process has removed it.
                entries.append((stat.st_mtime_ns, stat.st_size, entry.path))
    except OSError:
        return
    total = sum(size for _, size, _ in entries)
    if total <= LIMIT:
        return
    for _, size, path in sorted(entries):
        _remove(path)
        total -= size
        if total <= LIMIT * 3 // 4:
            return


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass
