"""Imports when they are needed, guided by a profile.

A profile has the modules that a program imports in plain Python, in that order, and says which of them its work needs. Modules of the
profile are imported with statements that bind names at their first use (`lazy_names`, `lazy_code`). The first import of a module that
the work did not need catches up: everything else of the profile is imported in plain Python's order, and every name is bound. From
then on this is a plain interpreter.

The standard library's modules are imported as ever.
"""

import sys
from _frozen_importlib import ModuleSpec, _call_with_frames_removed
from _frozen_importlib_external import PathFinder, SourceFileLoader
from _thread import get_ident
from types import ModuleType

from _hydrozoa import lazy_code, lazy_names, lazy_rules

_OWN = frozenset(sys.stdlib_module_names) | {"_hydrozoa", "__hydrozoa__", "__main__", "__mp_main__", "sitecustomize", "usercustomize"}
EAGER, OBSERVING, RECORDING, GUIDED = "eager", "observing", "recording", "guided"


class _Guidance:
    mode = EAGER
    folder = None
    order = ()
    """Names of the profile's modules in plain Python's order."""
    needed = frozenset()
    eager = frozenset()
    """Packages whose modules are imported where the statements stand."""
    children = {}
    """Names of submodules by their package."""
    found = {}
    """Names that were asked for, in that order, while observing or recording."""
    catching_up = None
    """The thread that catches up."""
    before = frozenset()
    """The modules that the start of the interpreter has imported."""
    releases = {}
    """Folders with metadata of distributions, by the modules beside them."""
    reason = None
    """Why the interpreter has caught up: the name that the profile lacked, as text."""
    warn = staticmethod(lambda text: None)
    """The host's function that logs a warning."""


state = _Guidance()


def install(mode, profile, folder):
    """Begins. `profile` has a line `+ NAME` for each module that is needed, and `- NAME` for one that is not. A line
    `! NAME` names a package whose own modules are imported where its statements stand, and `= NAME FOLDER` the metadata of a distribution that was beside a module."""
    releases = [line.split() for line in profile.splitlines() if line[:2] == "= "]
    state.releases = {}
    for _, name, metadata in releases:
        state.releases.setdefault(name, []).append(metadata)
    lines = [line.split() for line in profile.splitlines() if line[:2] in ("+ ", "- ")]
    state.mode, state.folder, state.before = mode, folder or None, frozenset(sys.modules)
    state.order = tuple(name for _, name in lines)
    state.needed = frozenset(name for mark, name in lines if mark == "+")
    state.eager = frozenset(line[2:] for line in profile.splitlines() if line[:2] == "! ")
    state.children = {}
    for name in state.order:
        parent, dot, child = name.rpartition(".")
        if dot:
            state.children.setdefault(parent, []).append(child)
    if mode != EAGER:
        at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(at, Finder)


def imported():
    """The modules that this interpreter has imported, the standard library's excepted, in the order of their imports."""
    names = dict.fromkeys(name for name in list(state.found) if name in sys.modules or state.mode == RECORDING)
    # sys.modules has a module behind those that it imports (_load_unlocked in Lib/importlib/_bootstrap.py).
    names.update(dict.fromkeys(name for name in list(sys.modules) if not is_own(name)))
    # A module of a package in a file has a name of its own in each interpreter (`package.mangle`).
    return [name for name in names if name not in state.before and not name.startswith("<")]


def releases(names):
    """Pairs of a module without a package and the folder with its distribution's metadata, where that lies beside the module."""
    import importlib.metadata
    import os

    owners = importlib.metadata.packages_distributions()
    found = []
    for name in dict.fromkeys(name.partition(".")[0] for name in names):
        spec = getattr(sys.modules.get(name), "__spec__", None)
        for owner in sorted(set(owners.get(name, ()))):
            path = getattr(importlib.metadata.distribution(owner), "_path", None)
            folder = os.path.basename(str(path))
            if path is not None and spec is not None and len(folder.split()) == 1 and _is_beside(spec, folder):
                found.append((name, folder))
    return found


def _is_beside(spec, folder):
    """Whether the metadata of a distribution lies where the module does."""
    import os

    if not spec.origin:
        return False
    place = os.path.dirname(spec.origin)
    if spec.submodule_search_locations is not None:
        place = os.path.dirname(place)
    return os.path.exists(os.path.join(place, folder))


def report():
    """Why this interpreter has caught up, or None."""
    return state.reason


def is_own(name):
    """Whether a module is the standard library's, or ours."""
    return name.partition(".")[0] in _OWN


class Finder:
    """Finds what PathFinder finds."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if state.mode == EAGER or is_own(fullname):
            return None
        if state.mode == OBSERVING:
            state.found[fullname] = None
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None:
            return None
        if state.mode == RECORDING:
            state.found[fullname] = None
        elif not all(_is_beside(spec, folder) for folder in state.releases.get(fullname, ())):
            state.warn(f"{fullname} is another release than {state.releases[fullname][0]}, which the profile of imports was recorded with")
            catch_up(fullname)
            return _again(fullname)
        elif fullname not in state.needed:
            if not any(space.names for space in list(lazy_names.spaces.values())):
                return None
            catch_up(fullname)
            return _again(fullname)
        if type(spec.loader) is SourceFileLoader and fullname.partition(".")[0] not in state.eager:
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec

    @staticmethod
    def invalidate_caches():
        pass


class Loader(SourceFileLoader):
    """Loads a module whose imports are made when they are needed."""

    def exec_module(self, module):
        name = module.__name__
        if state.mode in (EAGER, OBSERVING) or name in lazy_names.spaces:
            return super().exec_module(module)
        code = lazy_code.load(self.path, name, self.is_package(name), lazy_rules, state.folder)
        if code is None:
            code = self.get_code(name)
        space = lazy_names.spaces[name] = lazy_names.Space(name, module, self.path)
        space.dict[lazy_code.DECLARE] = _Declare(space)
        # Imports that are made later meet other modules half way than stock ones do. They find them where they will be.
        parent, _, child = name.rpartition(".")
        package = lazy_names.spaces.get(parent)
        if package is not None and not package.has(child) and child not in package.names:
            package.add_submodule(child)
        _add_children(space, frozenset(code.co_names))
        try:
            _call_with_frames_removed(exec, code, space.dict)
        except BaseException:
            lazy_names.spaces.pop(name, None)
            raise
        finally:
            space.dict.pop(lazy_code.DECLARE, None)
        space.executed()
        _add_children(space, ())

    # Frames of files with this name are cut from tracebacks of imports (remove_importlib_frames in Python/import.c).
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")


def _add_children(space, others):
    """Makes submodules, which plain Python had imported somewhere, attributes of their package. Not those with names of `others`."""
    if state.mode == EAGER:
        return
    for child in state.children.get(space.name, ()):
        if child not in others and not space.has(child) and child not in space.names:
            lazy_names.add_child(f"{space.name}.{child}")


class _Declare:
    """Replaces the import statements of one module."""

    __slots__ = ("space",)

    def __init__(self, space):
        self.space = space

    def __call__(self, line, module, level, names):
        space = self.space
        if module is None:
            for name, bound in names:
                self._import(line, name, bound)
            return
        dots = "." * level
        target = _absolute(space.dict, module, level)
        for attribute, bound in names:
            source = f"from {dots}{module} import {attribute} as {bound}"
            value = _bound_now(target, attribute)
            if value is not _MISSING:
                space.dict[bound] = value
            elif state.mode == EAGER:
                space.dict[bound] = lazy_names._run(space, line, source, bound)
            else:
                space.add(bound, line, source, (target, attribute))

    def _import(self, line, name, bound):
        space = self.space
        root = name.partition(".")[0]
        if bound is not None:
            source = f"import {name} as {bound}"
            parent, _, child = name.rpartition(".")
            value = _bound_now(parent, child) if parent else sys.modules.get(name, _MISSING)
            if value is not _MISSING:
                space.dict[bound] = value
            elif state.mode == EAGER:
                space.dict[bound] = lazy_names._run(space, line, source, bound)
            else:
                space.add(bound, line, source, (name, None))
        elif state.mode == EAGER:
            space.dict[root] = lazy_names._run(space, line, f"import {name}", root)
        elif root in space.names:
            space.names[root].targets += (name,)
        elif root in sys.modules:
            space.dict[root] = sys.modules[root]
            if root != name:
                lazy_names.add_child(name)
        else:
            space.add(root, line, None, (name,))


_MISSING = object()


def _absolute(names, module, level):
    if not level:
        return module
    package = names.get("__package__") or ""
    for _ in range(level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{module}" if module else package


def _bound_now(module, attribute):
    """The attribute of a module that is imported, if it costs nothing to have."""
    loaded = sys.modules.get(module)
    if type(loaded) not in (ModuleType, lazy_names.LazyModule):
        return _MISSING
    space = lazy_names.spaces.get(module)
    if space is not None and attribute in space.names:
        return _MISSING
    return lazy_names.namespace(loaded).get(attribute, _MISSING)


def catch_up(reason):
    """Imports the rest of the profile in plain Python's order, and binds all names."""
    if state.mode != GUIDED:
        _wait()
        return
    state.mode, state.catching_up, state.reason = EAGER, get_ident(), reason
    try:
        for name in state.order:
            if name not in sys.modules and name.partition(".")[0] in sys.modules:
                _import(name)
        for space in list(lazy_names.spaces.values()):
            # A name that fails stays unbound, and code that uses it gets the error.
            lazy_names.bind_all(list(space.names.values()), may_fail=True)
    except BaseException:
        state.mode = GUIDED  # It was interrupted. The next need goes on.
        raise
    finally:
        state.catching_up = None


def _import(name):
    try:
        __import__(name)
    except Exception:
        pass  # It is gone, or not for this program. Code that needs it imports it again, and gets the error.


def _wait():
    """Waits for a thread that catches up, unless this one is importing something itself: the other may need that."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "exec_module":
            return
        frame = frame.f_back
    import time

    while state.catching_up not in (None, get_ident()):
        time.sleep(0.001)


def _again(fullname):
    """The specification of a module that was imported while its finder was asked."""
    module = sys.modules.get(fullname)
    if module is None:
        return None
    spec = ModuleSpec(fullname, _Again(module, getattr(module, "__spec__", None)))
    # The import system takes the module's own (_find_spec in Lib/importlib/_bootstrap.py), and would load it again.
    module.__spec__ = spec
    return spec


class _Again:
    """Loads what is loaded."""

    def __init__(self, module, spec):
        self.module, self.spec = module, spec

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec
