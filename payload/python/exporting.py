"""Building a package with stock torch.package's exporter.

The caller's rules come first. For each module without a rule, the exporter here chooses one, with a
reason that the report shows. If modules cannot be packaged, the result is a list of all problems, each
with its remedy.
"""

import contextlib
import importlib
import importlib.machinery
import importlib.util
import io
import os
import pickle
import struct
import sys
import warnings

from torch.package import PackageExporter, package_exporter
from torch.package.package_exporter import (
    PackagingError,
    PackagingErrorReason,
    _ModuleProviderAction as Action,
)

# The records of the object and its example, named as in torch::deploy's own examples.
OBJECT, EXAMPLE = ("model", "model.pkl"), ("model", "example.pkl")

# Remedies for what torch.package's exporter refuses.
_REMEDIES = {
    PackagingErrorReason.IS_EXTENSION_MODULE: (
        "a C extension: put it in with --with-extension {file}, or take it from the machine that "
        "serves with --extern '{top}.**', or, if it is not really used, --mock '{name}'"
    ),
    PackagingErrorReason.NO_DUNDER_FILE: (
        "it has no source (built in, or made by code): --extern '{name}', or --mock '{name}'"
    ),
    PackagingErrorReason.SOURCE_FILE_NOT_FOUND: (
        "its source is not on disk: install it from source, or --extern '{top}.**'"
    ),
    PackagingErrorReason.DENIED: (
        "a --deny rule forbids it, and the object needs it along the way shown; mock it earlier on "
        "the command line, or change the code that imports it"
    ),
    PackagingErrorReason.MOCKED_BUT_STILL_USED: (
        "a --mock rule covers it, and the pickled object holds something of it: put "
        "--intern '{name}' before that rule"
    ),
    PackagingErrorReason.NO_ACTION: "say what it is: --intern, --extern or --mock '{name}'",
}


class Exporter(PackageExporter):
    """The stock exporter, with `_choose` for modules without a rule."""

    def __init__(self, path, own, extensions):
        super().__init__(path)
        self.reasons = {}
        self._own = own
        # Module name -> record, of libraries that are modules.
        self._extensions = {_module_of(record): record for record in extensions.values()}
        self._with_extension = {}

    def add_dependency(self, module_name, dependencies=True):
        if module_name in self._extensions:
            self.dependency_graph.add_node(module_name, action=Action.SKIP, provided=True)
            self.reasons[module_name] = f"the library {self._extensions[module_name]}"
        elif not self._can_implicitly_extern(module_name) and not any(
            pattern.matches(module_name) for pattern in self.patterns
        ):
            rule, self.reasons[module_name] = self._choose(module_name)
            rule(module_name)
        super().add_dependency(module_name, dependencies)

    def _choose(self, name):
        top = name.partition(".")[0]
        if top in ("sys", "io"):
            return self.extern, "the standard library"
        if top in self._own:
            return self.intern, "the object's own package"
        if top not in self._with_extension:
            self._with_extension[top] = _has_extensions(top)
        if self._with_extension[top]:
            return self.extern, f"{top} has C extensions"
        return self.intern, f"{top} is Python only"


def build(target, path, rules, extensions, data):
    """Calls `target`, `MODULE:CALLABLE`, and writes what it returns to `path`.

    `rules` are pairs of an action and a pattern, in order. `extensions` are pairs of a file and its
    record, which is "" for the place where Python finds the file. `data` are such pairs of other files.

    Returns `(object, example, modules, problems)`. `example` is None if the callable returned none.
    `modules` are rows of name, action, reason, size in bytes and the names of the importing modules. If
    there are problems, no file remains.
    """
    obj, example, module = _resolve(target)
    files = _libraries(extensions)
    others = {os.path.abspath(file): record or _record_of(os.path.abspath(file)) for file, record in data}
    for file, record in others.items():
        if not os.path.isfile(file):
            raise FileNotFoundError(f"--with-file {file}: there is no such file")
        if record.startswith(("/", "../", ".data/")) or "/../" in record:
            raise ValueError(f"--with-file {file}: a record cannot be named {record}")
    exporter = Exporter(path, {module.partition(".")[0], type(obj).__module__.partition(".")[0]} - _SHARED, files)
    for action, pattern in rules:
        getattr(exporter, action)(pattern)
    problems = []
    try:
        with exporter, warnings.catch_warnings(), _with_torchscript():
            # The stock exporter itself uses TypedStorage.
            warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
            for file, record in (files | others).items():
                with open(file, "rb") as stream:
                    exporter._write(record, stream.read())
            _save(exporter, OBJECT, obj, "the model")
            if example is not None:
                _save(exporter, EXAMPLE, example, "the arguments")
    except PackagingError:
        problems = _problems(exporter.dependency_graph)
    except BaseException:
        # The stock exporter does not remove its file.
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    if problems:
        os.unlink(path)
    return obj, example, _rows(exporter), problems


# Packages of the machine, also if the object is of one of their classes.
_SHARED = {"torch", "numpy", "builtins"}


def _resolve(target):
    module_name, colon, attributes = target.partition(":")
    if not colon or not attributes:
        raise ValueError(
            f"{target!r} is not MODULE:CALLABLE, such as train:packaged for the function "
            "packaged() of train.py"
        )
    found = importlib.import_module(module_name)
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise ValueError(f"{module_name} has no {attribute}; {target!r} must be MODULE:CALLABLE")
        found = getattr(found, attribute)
    if not callable(found):
        raise TypeError(f"{target} is a {type(found).__name__}, not a callable that returns a model")
    result = found()
    if result is None:
        raise TypeError(f"{target} returned None; it must return the model, or (model, arguments)")
    # A model, or a model and the arguments of one call.
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], tuple):
        return *result, module_name
    if isinstance(result, tuple) and len(result) == 2 and callable(result[0]):
        raise TypeError(
            f"{target} returned a model and a {type(result[1]).__name__}; the arguments of one call "
            "must be a tuple, such as (tensor,)"
        )
    return result, None, module_name


@contextlib.contextmanager
def _with_torchscript():
    """Lets the stock exporter write TorchScript modules, a beta feature that it disables."""
    before = package_exporter._gate_torchscript_serialization
    package_exporter._gate_torchscript_serialization = False
    try:
        yield
    finally:
        package_exporter._gate_torchscript_serialization = before


def _save(exporter, place, obj, what):
    """`save_pickle`, with an error that names the path to a part that cannot be pickled."""
    try:
        exporter.save_pickle(*place, obj)
    except PackagingError:
        raise
    except Exception as error:
        way = _way_to_unpicklable(obj)
        remedy = (
            "take it out before packaging, replace it by something that can be imported by name, or "
            "give what holds it a __getstate__ and __setstate__"
        )
        reason = f"{type(error).__name__}: {error}"
        raise pickle.PicklingError(f"{what}{way} cannot be pickled ({reason}); {remedy}") from error


def _way_to_unpicklable(obj):
    """The attributes and keys that lead to the smallest part which cannot be pickled."""
    way, seen = "", set()
    while id(obj) not in seen:
        seen.add(id(obj))
        for step, part in _parts(obj):
            if not _is_picklable(part):
                way, obj = way + step, part
                break
    return way


def _parts(obj):
    """The parts of an object, each with its path in Python's syntax."""
    if isinstance(obj, dict):
        return [(f"[{key!r}]", value) for key, value in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(f"[{index}]", value) for index, value in enumerate(obj)]
    try:
        obj.__reduce_ex__(2)
    except Exception:
        # The object itself refuses, as a parametrized module does.
        return []
    parts = []
    for name, value in getattr(obj, "__dict__", {}).items():
        if name in ("_modules", "_parameters", "_buffers") and isinstance(value, dict):
            parts += [(f".{key}", inner) for key, inner in value.items()]
        else:
            parts.append((f".{name}", value))
    return parts


def _is_picklable(obj):
    """Whether a pickler like the exporter's accepts it, apart from storages and scripts."""
    import torch

    class Pickler(pickle._Pickler):
        dispatch = pickle._Pickler.dispatch.copy()

        def persistent_id(self, inner):
            outside = torch.is_storage(inner) or isinstance(inner, torch.jit.ScriptModule)
            return "outside" if outside else None

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Pickler(io.BytesIO(), 3).dump(obj)
    except Exception:
        return False
    return True


def _module_of(record):
    """The module that a library would be: `a/b.cpython-311-x86_64-linux-gnu.so` is `a.b`."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if record.endswith(suffix):
            return record[: -len(suffix)].replace("/", ".")
    return record.replace("/", ".")


def _has_extensions(top):
    """Whether a package has C extensions, or is one."""
    spec = importlib.util.find_spec(top)
    if isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
        return True
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    return any(
        name.endswith(suffixes)
        for place in spec.submodule_search_locations or ()
        for _, _, names in os.walk(place)
        for name in names
    )


def _libraries(extensions):
    """File -> record, for the libraries and their own dependencies (`*.libs`)."""
    files = {}
    waiting = [(os.path.abspath(file), record) for file, record in extensions]
    while waiting:
        file, record = waiting.pop()
        if file in files:
            continue
        if not os.path.isfile(file):
            raise FileNotFoundError(f"--with-extension {file}: there is no such file")
        files[file] = record = record or _record_of(file)
        for name, folders in _needed(file):
            for folder in folders:
                neighbour = os.path.normpath(os.path.join(folder, name))
                relative = os.path.relpath(neighbour, os.path.dirname(file))
                inside = os.path.normpath(os.path.join(os.path.dirname(record), relative))
                # torch's own libraries are the machine's, as torch is.
                if os.path.isfile(neighbour) and not inside.startswith(("..", "torch/")):
                    waiting.append((neighbour, inside))
                    break
    return files


def _record_of(file):
    """The path below the first folder of sys.path that contains the file."""
    for folder in sys.path:
        folder = os.path.abspath(folder)
        if file.startswith(folder + os.sep):
            return os.path.relpath(file, folder)
    return os.path.basename(file)


def _needed(file):
    """DT_NEEDED of a 64-bit little-endian ELF file, with the folders of its own RPATH or RUNPATH
    (gABI, "Dynamic Section")."""
    with open(file, "rb") as stream:
        data = stream.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{file} is no shared library for this machine")
    offset, (size, count) = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, offset + size * i) for i in range(count)]
    loaded = [(h[3], h[2], h[5]) for h in headers if h[0] == 1]
    dynamic = next((h for h in headers if h[0] == 2), None)
    if dynamic is None:
        return []
    entries = list(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5] // 16 * 16]))
    table = next(value for tag, value in entries if tag == 5)
    at = next(o + table - a for a, o, s in loaded if a <= table < a + s)

    def text(value):
        return data[at + value : data.index(b"\0", at + value)].decode()

    origin = os.path.dirname(file)
    folders = [
        part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        for tag, value in entries
        if tag in (15, 29)
        for part in text(value).split(":")
        if part.startswith(("$ORIGIN", "${ORIGIN}"))
    ]
    return [(text(value), folders) for tag, value in entries if tag == 1]


def _problems(graph):
    """A text for each module that cannot be packaged: what needs it, and the remedy."""
    problems = []
    for name, attributes in graph.nodes.items():
        error = attributes.get("error")
        if error is None:
            continue
        module = sys.modules.get(name)
        words = {
            "name": name,
            "top": name.partition(".")[0],
            "file": getattr(module, "__file__", None) or f"FILE_OF_{name}",
        }
        remedy = _REMEDIES.get(error, error.value).format(**words)
        detail = attributes.get("error_context")
        detail = f" ({detail.strip()})" if detail else ""
        problems.append(f"{' -> '.join(_way(graph, name))}: {remedy}{detail}")
    return problems


def _way(graph, name):
    """The shortest path from a pickled object to a module."""
    way, seen = [[name]], {name}
    for path in way:
        above = graph._pred.get(path[0], {})
        if not above:
            return path
        for node in above:
            if node not in seen:
                seen.add(node)
                way.append([node, *path])
    return [name]


_ACTIONS = {
    Action.INTERN: "intern",
    Action.EXTERN: "extern",
    Action.MOCK: "mock",
    Action.DENY: "deny",
    Action.REPACKAGED_MOCK_MODULE: "mock",
    Action.SKIP: "library",
}


def _rows(exporter):
    graph = exporter.dependency_graph
    rows = []
    for name, attributes in graph.nodes.items():
        if attributes.get("is_pickle"):
            action, reason = "pickle", "saved by the caller"
        else:
            action = _ACTIONS.get(attributes.get("action"), "error")
            reason = exporter.reasons.get(name)
            if reason is None:
                implicit = action == "extern" and exporter._can_implicitly_extern(name)
                reason = "torch or the standard library" if implicit else "a rule"
        size = len((attributes.get("source") or "").encode()) if action == "intern" else 0
        rows.append((name, action, reason, size, list(graph._pred.get(name, ()))))
    return rows


def call(obj, example):
    """Calls the object with a fixed seed and without gradients."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        return obj(*example)
