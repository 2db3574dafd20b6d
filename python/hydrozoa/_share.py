"""What interpreters have of an object that the program shares with them.

The same file serves in the interpreters.
"""

import os
import pickle
import sys
import weakref

# Pickles name this module, which has one name on both sides.
sys.modules.setdefault("_hydrozoa_share", sys.modules[__name__])
sys.modules.setdefault("hydrozoa._share", sys.modules[__name__])
__name__ = "_hydrozoa_share"

# What an interpreter finds its copies by. The program has none.
_worker = sys.modules.get("_hydrozoa_worker")
native = _worker and _worker.companion

# In the program: what goes to interpreters, by its key.
known = weakref.WeakValueDictionary()


class _Memory(bytearray):
    """Memory that keeps what goes to an interpreter until it is there."""

    is_always_beside = True


class Reference:
    """What goes to an interpreter by its key: ("movable", number), or ("module", number of a package, module, name)."""

    def __init__(self, key):
        self._key = key

    def __eq__(self, other):
        return self._key == other._key if isinstance(other, Reference) else NotImplemented

    def __hash__(self):
        return hash(self._key)

    def __reduce_ex__(self, protocol):
        beside = None
        if protocol >= 5:
            memory = _Memory(1)
            memory.kept = self
            beside = pickle.PickleBuffer(memory)
        return received, (os.getpid(), self._key, beside)


class Copy(Reference):
    """In an interpreter: its copy of a shared object, as long as the program has that."""

    @property
    def object(self):
        """The copy itself."""
        kind, id, *names = self._key
        if kind == "movable":
            return native.movable(id)
        module, name = names
        found = native.module(id, module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def __call__(self, /, *arguments, **keywords):
        return self.object(*arguments, **keywords)


def received(process, key, beside):
    if process != os.getpid():
        raise LookupError("a shared object cannot go to another process")
    return Copy(key) if native is not None else known[key]


# What the program asks an interpreter for by its handles.
kept = {}


def keep(object):
    kept[id(object)] = object
    return id(object)


def forget(key):
    del kept[key]


def import_module(id, name):
    native.module(id, name)
