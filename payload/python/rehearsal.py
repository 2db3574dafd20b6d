"""Trial of a package: does it compute what the unpackaged object computes, and which of its modules could
be mocks?

A module is a *false dependency* if the object loads and computes the same bits with that module replaced
by a mock. The trial needs no new archive: it uses an importer over the same records that reads some of
them as mocks.
"""

import contextlib
import itertools
import os
import pickle
import sys
import time

from . import package
from .exporting import call

_MOCK = b"from _mock import MockedObject\ndef __getattr__(attr: str):\n    return MockedObject(__name__ + '.' + attr, _suppress_err=True)\n"

# Far above the host's numbers.
_identities = itertools.count(10**12)


class _Observed(package.PackageImporter):
    """Records which external modules are imported, and how much memory they take."""

    def __init__(self, archive, identity):
        self.externs_used = set()
        self.costs = _Costs()
        super().__init__(archive, identity)

    def import_module(self, name, package=None):
        if name not in self._tree.sources:
            self.externs_used.add(name)
        return super().import_module(name, package)

    def __import__(self, name, globals=None, locals=None, fromlist=(), level=0):
        if level or name in self._tree.sources:
            return super().__import__(name, globals, locals, fromlist, level)
        by = self._demangle((globals or {}).get("__name__", ""))
        with self.costs.of(by, sys._getframe(1).f_lineno, name):
            return super().__import__(name, globals, locals, fromlist, level)

    def exec_module(self, module):
        with self.costs.of(self._demangle(module.__name__), 0):
            super().exec_module(module)


class _Costs:
    """Memory of this process that external modules take, by the module that imports them."""

    def __init__(self):
        # The host's function that returns the private memory in bytes, if costs are wanted.
        self.private_memory = lambda: 0
        # Importing module or "", line or 0, the external module that imports the others, their number, bytes.
        self.rows = []
        # The counts of inner blocks: names of modules, and bytes.
        self._counted = [(set(), [])]

    @contextlib.contextmanager
    def of(self, by, line, wanted=None):
        known, before = set(sys.modules), self.private_memory()
        inner, parts = set(), []
        self._counted.append((inner, parts))
        try:
            yield
        finally:
            self._counted.pop()
            taken = self.private_memory() - before
            new = [
                name
                for name in list(sys.modules)
                if name not in known
                and name not in inner
                and package.mangled_identity(name) is None
                and not name.startswith("_hydrozoa.")
            ]
            if new:
                # importlib puts a module last in `sys.modules` when it is complete (_load_unlocked).
                first = wanted if wanted in new else new[-1]
                self.rows.append((by, line, first, len(new), max(taken - sum(parts), 0)))
            names, outer = self._counted[-1]
            names.update(inner, new)
            outer.append(taken)


def check(importer, resource, arguments, folders, private_memory):
    """Loads and calls the object. Without arguments it is only loaded. Returns `(output, modules,
    external modules, costs)`: the modules that were imported, and the rows of `_Costs`.

    `private_memory` returns the private memory of the process in bytes.

    `folders` hold the code of the machine that packages. A module that is imported from there, and is
    not external by a rule, is an error: the machine that serves does not have it."""
    trial = _install(importer.archive, frozenset())
    trial.costs.private_memory = private_memory
    known = set(sys.modules)
    try:
        with trial.costs.of("", 0):
            obj = trial.load_pickle(*resource)
            output = None if arguments is None else call(obj, arguments)
        _refuse_strays(trial, set(sys.modules) - known, folders)
        costs = sorted(trial.costs.rows, key=lambda row: -row[-1])
        return output, sorted(trial.modules), sorted(trial.externs_used), costs
    finally:
        package.remove(trial.identity)


def _refuse_strays(trial, names, folders):
    """Raises an error for modules that should have been imported from the package and were not."""
    tops = {name.partition(".")[0] for name in trial._tree.externs}
    installed = [os.path.realpath(prefix) + os.sep for prefix in {sys.prefix, sys.base_prefix}]
    folders = [os.path.realpath(folder) + os.sep for folder in folders]
    for name in sorted(names):
        module = sys.modules.get(name)
        if name.partition(".")[0] in tops or package.mangled_identity(name) is not None:
            continue
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        # Hydrozoa's own modules are in no folder.
        for place in filter(os.path.isabs, filter(None, places)):
            place = os.path.realpath(place)
            if place.startswith(tuple(folders)) and not place.startswith(tuple(installed)):
                raise ImportError(
                    f"{name} is imported from {place}, not from the package, and is no external "
                    "module: a server does not have it. Code that imports by a text "
                    "(importlib.import_module('a.b'), importlib.resources.files('a.b')) asks for the "
                    "machine's module; have it import the module by a statement and pass that, or "
                    f"package with --extern '{name}' and install it where it is served"
                )


def false_dependencies(importer, resource, arguments, expected, imported, used, seconds):
    """The false dependencies among an archive's modules and its external modules, and whether the time
    sufficed to try all."""
    archive = importer.archive
    tree = package._Tree(archive)
    stdlib = sys.stdlib_module_names | {"torch"}
    interned = {name for name in tree.sources if tree._has_source(name)} - {"_mock"}
    already = {name for name in interned if bytes(archive.read(tree.sources[name])) == _MOCK}
    externs = {name for name in tree.externs if name.partition(".")[0] not in stdlib}
    candidates = interned - already | externs
    deadline = time.monotonic() + seconds
    complete = True

    def works(mocked):
        nonlocal complete
        if time.monotonic() > deadline:
            complete = False
            return False
        trial = None
        try:
            trial = _install(archive, mocked)
            return unlike(call(trial.load_pickle(*resource), arguments), expected) is None
        except Exception:
            # This includes a mock below a package that stays external. No archive can have one.
            return False
        finally:
            if trial is not None:
                package.remove(trial.identity)

    def among(group, others):
        """Those of `group` that can be mocked together with `others`."""
        if not group or not complete:
            return []
        if works(frozenset(group) | others):
            return group
        if len(group) == 1:
            return []
        middle = len(group) // 2
        first = among(group[:middle], others)
        return first + among(group[middle:], others | frozenset(first))

    never = sorted(candidates - set(imported) - set(used))
    false = among(never, frozenset())
    # Neighbours in the alphabet are in one package. Often all of them are needed, or none.
    false += among(sorted(candidates - set(never)), frozenset(false))
    return sorted(false), complete


def _install(archive, mocked):
    """An importer over the archive's records, in which `mocked` modules are mocks."""
    tree = package._Tree(archive)
    overlay = {}
    names = set(archive.names)
    if mocked:
        externs = [name for name in tree.externs if name not in mocked]
        overlay[".data/extern_modules"] = "\n".join([*externs, ""]).encode()
        for name in mocked:
            record = tree.sources.get(name) or f"{name.replace('.', '/')}/__init__.py"
            overlay[record] = _MOCK
        if "_mock.py" not in names:
            import torch.package

            path = os.path.join(os.path.dirname(torch.package.__file__), "_mock.py")
            with open(path, "rb") as stream:
                overlay["_mock.py"] = stream.read()

    def read(name):
        return overlay[name] if name in overlay else archive.read(name)

    return package.install(
        next(_identities),
        archive.label,
        names | overlay.keys(),
        read,
        archive.storage,
        archive.open,
        archive.library,
        archive.read_only,
        kind=_Observed,
        resident=archive.resident,
    )


def unlike(found, expected, where="the output"):
    """The first difference between two results, or None. Tensors must have equal bits."""
    import torch

    if isinstance(expected, torch.Tensor):
        if not isinstance(found, torch.Tensor):
            return f"{where} is a {type(found).__name__} instead of a tensor"
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return (
                f"{where} is {found.dtype} {tuple(found.shape)} instead of "
                f"{expected.dtype} {tuple(expected.shape)}"
            )
        if not _same_bits(found, expected):
            return f"{where} has other values"
        return None
    if isinstance(expected, dict):
        if not isinstance(found, dict) or list(found) != list(expected):
            return f"{where} has other keys"
        pairs = [(f"{where}[{key!r}]", found[key], expected[key]) for key in expected]
    elif isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return f"{where} has another length"
        pairs = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(found, expected))]
    elif hasattr(expected, "__dict__"):
        if type(found).__qualname__ != type(expected).__qualname__:
            return f"{where} is a {type(found).__qualname__}"
        return unlike(vars(found), vars(expected), where)
    else:
        if type(found) is type(expected) and pickle.dumps(found) == pickle.dumps(expected):
            return None
        return f"{where} is {found!r:.80} instead of {expected!r:.80}"
    for place, one, other in pairs:
        difference = unlike(one, other, place)
        if difference is not None:
            return difference
    return None


def _same_bits(one, other):
    import torch

    if one.layout != torch.strided or one.is_quantized:
        return torch.equal(one.to_dense(), other.to_dense())
    one, other = (t.detach().resolve_conj().resolve_neg().contiguous().cpu() for t in (one, other))
    if one.numel() == 0:
        return True
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
