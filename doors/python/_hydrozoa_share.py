"""The interpreters' side of an object that the program shares with them.

Pickles name this module, so the program and its interpreters have it by one name.
"""

import os
import sys
import weakref

import _hydrozoa_pickling as pickling

# An interpreter finds its copies by this. In the program it is None.
_worker = sys.modules.get("_hydrozoa_worker")
native = _worker and _worker.companion

# In the program: what goes to interpreters, by its key.
known = weakref.WeakValueDictionary()


class Reference:
    """An object that goes to an interpreter by its key: ("movable", number), or ("module", number of a package, module, name)."""

    def __init__(self, key):
        self._key = key

    def __eq__(self, other):
        return self._key == other._key if isinstance(other, Reference) else NotImplemented

    def __hash__(self):
        return hash(self._key)

    def __reduce_ex__(self, protocol):
        return received, (os.getpid(), self._key, pickling.keeping(self, protocol))


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


# The objects that the program asks an interpreter for, by its handles.
kept = {}


def keep(object):
    kept[id(object)] = object
    return id(object)


def forget(key):
    del kept[key]


def import_module(id, name):
    native.module(id, name)
