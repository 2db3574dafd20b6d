"""Names of a module whose import statements have not run yet.

A name that is not bound yet is a key of the module's own dict: an instance of `Name`, a `str` whose comparison runs the import
statement. CPython compares a key of equal hash that is another object, and begins the look-up again if the comparison has changed the
dict (Objects/dictobject.c). So every look-up by key finds the value: LOAD_GLOBAL, LOAD_NAME, getattr of the module, eval, subscripts,
`in`, deletion and assignment. The dict stays a dict, and builtins stay as they are.

A dict with such a key is one of general keys, for which CPython does not specialise instructions. When the last name of a module is
bound, the dict is made one of plain text keys again.
"""

import builtins
import collections
import functools
import gc
import itertools
import sys
from _thread import get_ident
from types import ModuleType

from _hydrozoa import lazy_rules

_UNBOUND = type("unbound", (), {"__slots__": (), "__repr__": lambda self: "<name that is imported when it is used>"})()
"""The value under a `Name`. Only iteration over a copy of a module's dict shows it."""

_MISSING = object()
_resolving = set()
"""Which names which threads are binding: pairs of `id` and thread."""

spaces = {}
"""Modules with names that are, or were, unbound, by name."""

_pending = {}
"""Submodules that an import statement has named before their parent was imported, by the parent's name."""


class Name(str):
    """The key of a name that is not bound yet."""

    __slots__ = ("space", "line", "source", "targets")

    def __new__(cls, text=""):
        name = super().__new__(cls, text)
        name.space = None
        return name

    # Defaults, since modules lose their globals while the interpreter ends. Then nothing is imported any more.
    def __eq__(self, other, is_ending=sys.is_finalizing):
        if self is other:
            return True
        if not isinstance(other, str) or str.__ne__(self, other):
            return False
        if (id(self), get_ident()) in _resolving:
            return False  # The statement asks whether the name exists. It does not: the plain name is another key.
        space = self.space
        if space is None:
            return True
        if is_ending():
            return False
        is_copied = sys.getrefcount(self) > _references
        value = self.bind(space)
        if is_copied:
            self.mend_copies(value)
        return True

    def __ne__(self, other):
        return not self == other

    def __hash__(self, is_ending=sys.is_finalizing):
        # It is a key of a look-up itself: some code has read the keys of the dict.
        space = self.space
        if space is not None and not is_ending() and (id(self), get_ident()) not in _resolving:
            self.mend_copies(self.bind(space))
        return str.__hash__(self)

    def __reduce__(self):
        return str, (str.__str__(self),)

    def bind(self, space):
        """Runs the import statement, puts the value under the plain name, and returns it.

        `space` is the name's own. The caller has read it: another thread may have bound the name since, and cleared it.
        """
        plain, busy = str.__str__(self), (id(self), get_ident())
        if busy in _resolving:
            return _UNBOUND  # It is being bound further up.
        _resolving.add(busy)
        try:
            value = self._value(space)
            # Another thread, or the program itself, may have bound it meanwhile. The plain name comes before this one goes, so
            # that no look-up of another thread misses both.
            value = space.dict.setdefault(plain, value)
            space.dict.pop(self, None)
            self.space = None
        except AttributeError as error:
            # A look-up would take it for an absent name (_Py_module_getattro in Objects/moduleobject.c).
            raise ImportError(f"{space.name}.{plain} cannot be imported: {error}", name=space.name, path=space.file) from error
        finally:
            _resolving.discard(busy)
        space.bound(plain, self)
        return value

    def mend_copies(self, value):
        """Puts the value into dicts that were made of the module's while the name was not bound. It walks through the heap."""
        for holder in gc.get_referrers(self):
            if type(holder) is dict and holder.get(self) is _UNBOUND:
                del holder[self]
                holder.setdefault(str.__str__(self), value)

    def _value(self, space):
        source = self.source
        if source is None:  # import a.b.c, which binds a
            root = _run(space, self.line, f"import {self.targets[0].partition('.')[0]} as _", "_")
            settle_children(self.targets)
            return root
        module, attribute = self.targets
        loaded = sys.modules.get(module)
        if attribute is None and loaded is not None:
            return loaded
        if type(loaded) in (ModuleType, LazyModule):
            value = getattr(loaded, attribute, _MISSING)
            if value is not _MISSING:
                return value
        return _run(space, self.line, source, str.__str__(self))


def _run(space, line, source, bound):
    """Runs an import statement as if it stood in that line of the module."""
    code = compile(source, space.file, "exec", dont_inherit=True).replace(co_firstlineno=line or 1)
    known = {name: space.dict.get(name) for name in ("__name__", "__package__", "__spec__", "__path__") if name in space.dict}
    known["__builtins__"] = builtins
    values = {}
    exec(code, known, values)
    return values[bound]


class LazyModule(ModuleType):
    """The class of a module while it has unbound names. Reading its `__dict__` completes it."""

    @property
    def __dict__(self):
        names = namespace(self)
        space = spaces.get(names.get("__name__"))
        # These look up single names, or the module's file and loader.
        if space is not None and space.is_executed and sys._getframe(1).f_globals.get("__name__") not in _READERS:
            space.complete()
        return names

    def __dir__(self):
        names = namespace(self)
        own = names.get("__dir__")
        if own is not None:
            return own()
        if sys._getframe(1).f_globals.get("__name__") in lazy_rules.READ_WHAT_IS_BOUND:
            return sorted(name for name in list(names) if type(name) is str)
        space = spaces.get(names.get("__name__"))
        # Half way, a module shows only the submodules that some code has imported.
        hides = space is not None and not space.is_executed
        return sorted(str.__str__(name) for name in list(names) if not (hides and type(name) is Name and not name.line))

    def __reduce__(self):
        import importlib

        return importlib.import_module, (self.__name__,)


LazyModule.__name__ = LazyModule.__qualname__ = "module"
_READERS = frozenset(("dataclasses", "inspect", "linecache", "traceback", "warnings"))
_dict_of = ModuleType.__dict__["__dict__"].__get__


def namespace(module):
    """The dict of a module, with its unbound names."""
    return _dict_of(module, type(module))


class Space:
    """The namespace of one module."""

    __slots__ = ("name", "module", "dict", "names", "file", "is_executed", "is_general")

    def __init__(self, name, module, file):
        self.name, self.module, self.file = name, module, file
        self.dict = namespace(module)
        self.names = {}
        self.is_executed = self.is_general = False

    def add(self, plain, line, source, targets):
        """Leaves a name to be bound by `source` when it is used."""
        former = self.names.pop(plain, None)
        if former is None:
            self.dict.pop(plain, None)
        else:
            former.space = None
            self.dict.pop(former)
        name = Name(plain)
        name.line, name.source, name.targets = line, source, targets
        self.dict[name] = _UNBOUND
        self.names[plain] = name
        name.space = self
        self.is_general = True
        if type(self.module) is ModuleType:
            self.module.__class__ = LazyModule

    def add_submodule(self, child):
        known = f"{self.name}.{child}"
        self.add(child, 0, f"import {known} as {child}", (known, None))

    def bound(self, plain, name):
        """Notes that a name has been bound."""
        if self.names.get(plain) is name:
            del self.names[plain]
        if not self.names and self.is_executed:
            self._close()

    def has(self, plain):
        """Whether the name is bound. Binds nothing."""
        return plain not in self.names and plain in self.dict

    def complete(self):
        """Binds all names, in the order of the statements."""
        bind_all(list(self.names.values()))

    def executed(self):
        """The module's code has run."""
        self.is_executed = True
        for child in _pending.pop(self.name, ()):
            add_child(child)
        if not self.names:
            self._close()

    def _close(self):
        if type(self.module) is LazyModule:
            self.module.__class__ = ModuleType
        if not self.is_general:
            return
        names, plain = self.dict, {}
        # Other threads must not see the dict change, nor change it meanwhile. So C code makes all of these calls, and no Python code
        # runs in between. Nothing is freed; up to 3.11 an allocation may start a collection, which could run some.
        unless_new_names_came = map([None].__getitem__, map(len, [self.names]))
        steps = [
            functools.partial(plain.update, zip(names, names.values())),
            functools.partial(names.clear),
            functools.partial(names.update, plain),
        ]
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            collections.deque(itertools.chain(unless_new_names_came, map(functools.partial.__call__, steps)), 0)
            self.is_general = False
        except (IndexError, RuntimeError):
            pass  # The dict has changed just now. It stays one of general keys, which is slower and nothing else.
        finally:
            if was_enabled:
                gc.enable()


def bind_all(names, may_fail=False):
    """Binds these names, and mends copies of their dicts. With `may_fail`, one that cannot be bound stays as it is."""
    values, name = [], None
    for name in names:
        try:
            space = name.space
            values.append(_UNBOUND if space is None else name.bind(space))
        except Exception:
            if not may_fail:
                raise
            values.append(_UNBOUND)
    del name
    # A name with more references than a new one, which only this list holds, is a key of other dicts.
    names.append(Name())
    counts = [sys.getrefcount(name) for name in names]
    own = counts.pop()
    for name, value, count in zip(names, values, counts):
        if count > own and value is not _UNBOUND:
            name.mend_copies(value)


def add_child(full):
    """The submodule becomes an attribute of its package, as an import statement makes it one, and is imported when it is used."""
    parts = full.split(".")
    for count in range(1, len(parts)):
        parent, child = ".".join(parts[:count]), parts[count]
        if parent not in sys.modules:
            _pending.setdefault(parent, []).append(full)
            return
        space = spaces.get(parent)
        known = f"{parent}.{child}"
        if space is None or sys.modules.get(parent) is not space.module:
            __import__(full)
            return
        if known in sys.modules:
            continue
        if child in space.names:
            # Its statement, or its own children, bring the rest.
            if count + 1 < len(parts):
                _pending.setdefault(known, []).append(full)
            return
        if space.has(child):
            __import__(known)  # It replaces what has its name, now and not later.
            continue
        space.add_submodule(child)
        if count + 1 < len(parts):
            _pending.setdefault(known, []).append(full)
        return


def settle_children(targets):
    """Fulfils the promise of `import a.b.c`, where the packages' dicts cannot."""
    for full in targets:
        add_child(full)


def _count_references():
    """How many references a look-up holds on a `Name` that is in its module's dict alone."""
    found = []

    class Probe(Name):
        __slots__ = ()

        def __eq__(self, other):
            if self is other or str.__ne__(self, other):
                return self is other
            found.append(sys.getrefcount(self))
            return False

        __hash__ = str.__hash__

    key = Probe("probe")
    dictionary, names = {key: None}, {"other": key}
    del key
    dictionary.get("probe")
    return found[0] + len(names) - 1


_references = _count_references()
