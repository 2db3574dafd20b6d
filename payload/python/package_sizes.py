"""The memory of each Python package's objects.

Modules are visited in the order of `sys.modules`. An object belongs to the package of the first module that leads to it, and a function
or a class to the package that its `__module__` names. From there the way goes as the garbage collector's (`gc.get_referents`). It stops
at other modules. Those that were imported completely come first in `sys.modules` (`_load_unlocked` in Lib/importlib/_bootstrap.py). So
objects that a module takes over from another one belong to that one, and so do objects that it registers there, except functions and
classes.

The size of an object is that of `sys.getsizeof`. It omits memory that C code has taken from malloc without telling Python, and the
allocators' losses between blocks.
"""

import gc
import sys
from collections import deque
from types import FunctionType, ModuleType

# Not by attributes: modules and classes may define how those are found.
_names_of_module = ModuleType.__dict__["__dict__"].__get__
_names_of_class = type.__dict__["__dict__"].__get__
_flags_of_class = type.__dict__["__flags__"].__get__
_HEAPTYPE = 1 << 9


def measure():
    """Each package that has objects: its name, their bytes, their number. The empty name has the objects that no module leads to."""
    sizes, seen, found, modules = {"": [0, 0]}, set(), deque(), []
    # By their addresses. An object that was freed meanwhile leaves its address to another, which is missed then.
    seen.update(map(id, (sys.modules, sizes, seen, found, modules)))

    def note(objects, package):
        for one in objects:
            if id(one) not in seen:
                seen.add(id(one))
                found.append((one, package))

    def walk():
        while found:
            one, package = found.popleft()
            kind = type(one)
            is_class = issubclass(kind, type)
            owner = one.__module__ if kind is FunctionType else _names_of_class(one).get("__module__") if is_class else None
            if isinstance(owner, str):
                owner = owner.partition(".")[0]
                package = owner if owner in sizes else package
            if is_class and not _flags_of_class(one) & _HEAPTYPE:
                # It is data of a library, and the collector does not visit it. The rest it has got at run time.
                note((*gc.get_referents(_names_of_class(one)), one.__bases__, one.__mro__), package)
                continue
            size = sizes[package]
            size[0] += _size(one, kind)
            size[1] += 1
            note(gc.get_referents(one), package)

    for name, module in list(sys.modules.items()):
        if isinstance(name, str) and id(module) not in seen:
            package = name.partition(".")[0]
            sizes.setdefault(package, [0, 0])
            parts = [module]
            if issubclass(type(module), ModuleType):
                parts.insert(0, _names_of_module(module))
            seen.update(map(id, parts))
            modules.append((parts, package))
    for parts, package in modules:
        found.extend((part, package) for part in parts)
        walk()
    # Those that the collector knows, but for those put aside by `gc.freeze`.
    everything = gc.get_objects()
    seen.add(id(everything))
    note(everything, "")
    walk()
    return [(name, *size) for name, size in sizes.items() if size[1]]


def _size(one, kind):
    """The size of an object; for one that cannot say it, its class's."""
    try:
        return sys.getsizeof(one)
    except Exception:
        return kind.__basicsize__
