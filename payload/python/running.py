"""Modules of code that the application runs (`Session::run`).

Such a module is in `sys.modules` as long as something of it is used. `sys.modules` has an entry there that finds the module
and does not keep it alive. So a program may run any number of files.
"""

import sys

# Part of every interpreter from its start.
from _frozen_importlib import ModuleSpec
from _weakref import ref

_Module = type(sys)

# The package of these modules. Its name keeps them apart from modules that are imported.
PACKAGE = "__hydrozoa__"


class _Loader:
    """Holds the source of one module (PEP 302). The module's namespace keeps the loader alive and with it the module."""

    def __init__(self, module, source):
        self._module = module
        self._source = source

    def get_source(self, name):
        return self._source


class _Reference(ref):
    """A weak reference to a module that takes the module's entry out of `sys.modules`."""

    __slots__ = ("entry", "name")

    def __new__(cls, module, entry):
        return super().__new__(cls, module, _forget)

    def __init__(self, module, entry):
        super().__init__(module, _forget)
        self.entry = ref(entry)
        self.name = module.__name__


def _forget(reference, modules=sys.modules):
    if modules.get(reference.name) is reference.entry():
        modules.pop(reference.name, None)


class _Entry(_Module):
    """Stands for a module in `sys.modules`."""

    def __init__(self, module):
        super().__init__(module.__name__)
        object.__setattr__(self, "_reference", _Reference(module, self))

    def __getattribute__(self, name):
        return getattr(_module(self), name)

    def __setattr__(self, name, value):
        setattr(_module(self), name, value)

    def __delattr__(self, name):
        delattr(_module(self), name)

    def __dir__(self):
        return dir(_module(self))


def _module(entry):
    reference = object.__getattribute__(entry, "_reference")
    module = reference()
    if module is None:
        raise AttributeError(f"the module {reference.name!r} is gone: nothing of what it has defined was used any more")
    return module


def begin(source, file):
    """A new module for this source, already in `sys.modules`, and what stood there."""
    if PACKAGE not in sys.modules:
        package = _Module(PACKAGE, "Modules of code that the application runs.")
        package.__path__ = []
        sys.modules[PACKAGE] = package
    # Behind a further dot importlib would look for another package.
    name = f"{PACKAGE}.{file.removesuffix('.py').replace('.', '_')}"
    module = _Module(name)
    loader = _Loader(module, source)
    spec = ModuleSpec(name, loader, origin=file)
    # Tracebacks and inspect ask the loader for the source of what could be a file.
    spec.has_location = True
    vars(module).update(__file__=file, __loader__=loader, __package__=PACKAGE, __spec__=spec)
    if (linecache := sys.modules.get("linecache")) is not None:
        # Lines of a former source of this name.
        linecache.cache.pop(file, None)
    former = sys.modules.get(name)
    sys.modules[name] = _Entry(module)
    return module, former


def undo(module, former):
    """Puts back what stood in the place of a module whose code has raised an exception."""
    name = module.__name__
    entry = sys.modules.get(name)
    if type(entry) is not _Entry or _module(entry) is not module:
        return
    if former is None:
        del sys.modules[name]
    else:
        sys.modules[name] = former
