"""Hermetic import of torch.package archives.

An archive holds modules, pickled objects and the storages of their tensors. Its modules can import
each other and the modules that the archive declares as external, and nothing else of this interpreter.

A module of an archive is an ordinary module in `sys.modules` under a mangled name,
`<torch_package_N>.name`. N is the host's number of the archive, the same in all interpreters. The
module has `__builtins__` of its own. Their `__import__` turns the plain names of import statements into
mangled names, or into external modules where these are declared.

importlib does the rest. It has a lock for each module (two threads that import the same module, or
each other's, do not deadlock). It cleans up after a module that raised, resolves relative imports
(`__package__` is mangled too) and sets the attributes of parents. Code that goes from `cls.__module__`
to the module works unpatched: pickle, typing.get_type_hints, dataclasses, inspect, linecache,
importlib.resources, importlib.import_module("." + name, __name__).

torch.package keeps its modules out of `sys.modules`. This importer shares only its conventions for
names and files (`.data/extern_modules`, `_mock`, `torch_package_importer`).

Nothing here needs torch unless the archive holds tensors.
"""

import builtins
import importlib
import importlib.machinery
import importlib.util
import linecache
import marshal
import re
import sys
import threading
import types
import typing

from .archive import Archive
from .unpickling import PackageUnpickler

# Importable from any archive without a declaration: torch needs them and the exporter does not see it
# (torch/package/package_importer.py, IMPLICIT_IMPORT_ALLOWLIST).
IMPLICIT_EXTERNS = frozenset({"builtins", "numpy", "numpy.core", "numpy.core._multiarray_umath"})

# The module name by which packaged code reaches its own importer, as in torch.package.
SELF_NAME = "torch_package_importer"

# The compiled code of a source depends on this, as in the names of `.pyc` files (PEP 3147, PEP 488).
_COMPILER = f"{importlib.util.MAGIC_NUMBER.hex()} {sys.flags.optimize}"

_MANGLED = re.compile(r"<torch_package_(\d+)>")


def mangled_identity(name):
    """The number of the archive that the mangled `name` belongs to, or None for a plain name."""
    match = _MANGLED.match(name)
    return int(match[1]) if match else None


# An extension module's file for one Python: `name.cpython-311-x86_64-linux-gnu.so` (PEP 3149).
_TAGGED = re.compile(r"(\w+)\.(?:cpython|pypy|graalpy)[^/]*\.so")


class _Tree:
    """Which modules and external modules an archive has."""

    def __init__(self, archive):
        self.externs = frozenset(
            line for line in archive.text(".data/extern_modules").splitlines() if line
        )
        # Plain module name -> its record, or None for a namespace package.
        self.sources = {}
        # Name -> record of extension modules for other Pythons.
        self.foreign = {}
        self.packages = set()
        for record in sorted(archive.names):
            if record.startswith(".data/"):
                continue
            *folders, last = record.split("/")
            for depth in range(1, len(folders) + 1):
                self.packages.add(".".join(folders[:depth]))
            if not last.endswith(".py"):
                self._add_library(folders, last, record)
                continue
            name = ".".join(folders if last == "__init__.py" else [*folders, last[:-3]])
            extern = self.extern_of(name)
            if extern is not None:
                raise ImportError(
                    f"{archive.label}: the module {name} is in the archive ({record}), "
                    f"and the archive declares {extern} as external"
                )
            if last == "__init__.py" or not self._has_source(name):
                self.sources[name] = record
        for name in self.packages:
            self.sources.setdefault(name, None)

    def _add_library(self, folders, last, record):
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            stem = last.removesuffix(suffix)
            if stem != last and "." not in stem:
                name = ".".join([*folders, stem])
                if not self._has_source(name) and self.extern_of(name) is None:
                    self.sources[name] = record
                return
        tagged = _TAGGED.fullmatch(last)
        if tagged:
            self.foreign.setdefault(".".join([*folders, tagged[1]]), record)

    def _has_source(self, name):
        return (self.sources.get(name) or "").endswith(".py")

    def is_library(self, name):
        source = self.sources[name]
        return source is not None and not source.endswith(".py")

    def extern_of(self, name):
        """The declared external module that covers `name`, or None."""
        while name:
            if name in self.externs:
                return name
            name = name.rpartition(".")[0]
        return None

    def is_package(self, name):
        source = self.sources[name]
        return source is None or source.endswith("__init__.py")


class PackageImporter:
    """Imports modules and loads objects from one archive into this interpreter.

    It is the loader of its modules, the finder of their names, and the `__import__` of their builtins.
    Its public methods are those of torch.package.PackageImporter.
    """

    def __init__(self, archive, identity):
        self.archive = archive
        self.identity = identity
        self.filename = archive.label
        self._root = f"<torch_package_{identity}>"
        self._prefix = self._root + "."
        self._tree = _Tree(archive)
        # Undeclared parents of declared modules.
        self._stand_ins = {}
        self._builtins = dict(builtins.__dict__)
        self._builtins["__import__"] = self.__import__
        # State of the load_pickle in progress on a thread. torch.jit reads it through the properties
        # below.
        self._loading = threading.local()

    def __repr__(self):
        return f"<{type(self).__name__} {self._root} {self.filename!r}>"

    # For users.

    def import_module(self, name, package=None):
        """The module of that plain or mangled name. `package` is ignored; the signature has it."""
        name = self._demangle(name)
        if name in self._tree.sources:
            # Not importlib.import_module, which raises _DeadlockError when two threads import each
            # other's modules. The import statement accepts a module that is still being initialized
            # (import_ensure_initialized in CPython's import.c).
            builtins.__import__(self._prefix + name)
            return sys.modules[self._prefix + name]
        if name == SELF_NAME:
            return self
        if self._is_external(name):
            return importlib.import_module(name)
        raise self._not_found(name)

    def load_binary(self, package, resource):
        return bytes(self.archive.read(self._record(package, resource)))

    def load_text(self, package, resource, encoding="utf-8", errors="strict"):
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package, resource, map_location=None):
        """Unpickles a record. The storages of its tensors are the archive's. All objects that are loaded
        from the archive share them, in all interpreters."""
        data = self.archive.read(self._record(package, resource))
        unpickler = PackageUnpickler(self, data, map_location)
        outer = getattr(self._loading, "unpickler", None)
        self._loading.unpickler = unpickler
        try:
            return unpickler.load()
        finally:
            self._loading.unpickler = outer

    def python_version(self):
        """Version of the Python that wrote the archive, or None if the archive does not state it."""
        if ".data/python_version" not in self.archive.names:
            return None
        return self.archive.text(".data/python_version").strip()

    def id(self):
        return self._root

    @property
    def extern_modules(self):
        return sorted(self._tree.externs)

    @property
    def modules(self):
        """The archive's modules that have been imported, by their plain names."""
        cut = len(self._prefix)
        return {
            name[cut:]: module
            for name, module in list(sys.modules.items())
            if name.startswith(self._prefix)
        }

    @property
    def patched_builtins(self):
        """The builtins of the archive's modules; torch.fx runs generated code with them."""
        return self._builtins

    @property
    def torch_importer(self):
        """This importer with torch.package's interface: for the `importer` of a PackageExporter that
        exports what was loaded from here."""
        from .torch_importers import Packaged

        return Packaged(self)

    def unload(self):
        """Forgets the modules. Objects that still refer to them keep them alive."""
        for name in [n for n in sys.modules if n == self._root or n.startswith(self._prefix)]:
            del sys.modules[name]
        for filename in [f for f in linecache.cache if f.startswith(self._prefix)]:
            del linecache.cache[filename]

    def library_path(self, record):
        """A path by which ctypes.CDLL and torch.ops.load_library can load a shared library of the
        archive in this process. Nothing else can open it."""
        if record not in self.archive.names:
            raise FileNotFoundError(f"{self.filename} has no record {record}")
        return self.archive.library(record)

    def find_file(self, finder, folder, fullname):
        """Answers importlib's FileFinder for a folder of the archive."""
        tail = fullname.rpartition(".")[2]
        for suffix, loader in finder._loaders:
            record = f"{folder}/{tail}{suffix}"
            if record in self.archive.names and not suffix.startswith(".py"):
                path = self.archive.library(record)
                return importlib.util.spec_from_file_location(
                    fullname, path, loader=loader(fullname, path)
                )
        return None

    # For torch.jit and torch.fx, which get the importer while it unpickles (torch/jit/_script.py,
    # unpackage_script_module).

    @property
    def zip_reader(self):
        return self._loading.unpickler.zip_reader

    @property
    def storage_context(self):
        return self._loading.unpickler.storage_context

    @property
    def last_map_location(self):
        return self._loading.unpickler.map_location

    # The import statement of packaged code.

    def __import__(self, name, globals=None, locals=None, fromlist=(), level=0):
        if level > 0:
            name = self._absolute(name, globals, level)
            top = None
        else:
            top = name.partition(".")[0]
        if not self._has(name) and self._declares(name, fromlist):
            # `from importlib import machinery`: the exporter declares the submodule alone.
            return self._parent(name, fromlist)
        module = self.import_module(name)
        if fromlist:
            if name in self._tree.sources:
                self._import_from(name, module, fromlist)
                return module
            if module is self:
                return module
            return builtins.__import__(module.__name__, None, None, fromlist, 0)
        if top is None:
            # `__import__("x.y", level=1)`. No import statement compiles to this.
            return module
        if top == name:
            return module
        return self.import_module(top) if self._has(top) else self._parents(name, module)

    def _has(self, name):
        return name in self._tree.sources or name == SELF_NAME or self._is_external(name)

    def _declares(self, name, fromlist):
        return any(
            isinstance(item, str) and self._tree.extern_of(f"{name}.{item}") for item in fromlist or ()
        )

    def _parent(self, name, fromlist):
        """A module that stands for `name`, which is neither in the archive nor declared. It has the
        declared modules below it, and nothing else."""
        parent = self._stand_ins.get(name)
        if parent is None:
            parent = self._stand_ins[name] = types.ModuleType(self._prefix + name)
        for item in fromlist:
            if self._tree.extern_of(f"{name}.{item}"):
                setattr(parent, item, importlib.import_module(f"{name}.{item}"))
        return parent

    def _parents(self, name, module):
        """The module that `import name` binds if only `name` is declared: that of its first part."""
        while "." in name:
            name, _, child = name.rpartition(".")
            parent = self._parent(name, ())
            setattr(parent, child, module)
            module = parent
        return module

    def _absolute(self, name, globals, level):
        """The plain name that a relative import means."""
        globals = globals or {}
        package = globals.get("__package__")
        if package is None:
            package = globals.get("__name__", "")
            if "__path__" not in globals:
                package = package.rpartition(".")[0]
        package = self._demangle(package)
        if not package:
            raise ImportError("attempted relative import with no known parent package")
        parts = package.rsplit(".", level - 1)
        if len(parts) < level:
            raise ImportError("attempted relative import beyond top-level package")
        return f"{parts[0]}.{name}" if name else parts[0]

    def _import_from(self, name, module, fromlist, star=False):
        """Imports the submodules that `from name import fromlist` names."""
        if not hasattr(module, "__path__"):
            return
        for item in fromlist:
            if not isinstance(item, str):
                where = f"{name}.__all__" if star else "``from list''"
                raise TypeError(f"Item in {where} must be str, not {type(item).__name__}")
            if item == "*":
                names = getattr(module, "__all__", None)
                if names is not None and not star:
                    self._import_from(name, module, names, star=True)
            elif not hasattr(module, item):
                full = f"{name}.{item}"
                if full in self._tree.sources:
                    self.import_module(full)
                elif full in self._tree.foreign:
                    raise self._not_found(full)
                elif self._tree.extern_of(full):
                    # An external module inside a packaged one (a C extension, say).
                    setattr(module, item, importlib.import_module(full))

    # importlib's finder and loader protocol, for mangled names.

    def find_spec(self, fullname):
        if fullname == self._root:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        name = self._demangle(fullname)
        if name not in self._tree.sources:
            if not self._is_external(name):
                return None
            # importlib.import_module(".x", __name__) where x is external.
            return importlib.machinery.ModuleSpec(fullname, _ExternLoader(name))
        source = self._tree.sources[name]
        if self._tree.is_library(name):
            path = self.archive.library(source)
            loader = importlib.machinery.ExtensionFileLoader(fullname, path)
            return importlib.util.spec_from_file_location(fullname, path, loader=loader)
        spec = importlib.machinery.ModuleSpec(
            fullname,
            self,
            origin=self._prefix + source if source else None,
            is_package=self._tree.is_package(name),
        )
        spec.has_location = source is not None
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(self._prefix + name.replace(".", "/"))
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        namespace = module.__dict__
        namespace["__builtins__"] = self._builtins
        namespace["__torch_package__"] = True
        namespace["__cached__"] = None
        if not module.__spec__.has_location:
            return
        # Tracebacks and inspect take the source from here, through get_source.
        linecache.lazycache(module.__file__, namespace)
        exec(self.get_code(module.__name__), namespace)
        if "__getattr__" in namespace and "MockedObject" in namespace:
            namespace["__getattr__"] = _without_probes(namespace["__getattr__"])

    def get_code(self, fullname):
        record = self._source(fullname)
        archive = self.archive
        if archive.find_code is None:
            return self._compile(record)
        key = f"{_COMPILER} {record}"
        kept = archive.find_code(key)
        if kept is not None:
            return marshal.loads(kept)
        code = self._compile(record)
        archive.keep_code(key, marshal.dumps(code))
        return code

    def _compile(self, record):
        source = bytes(self.archive.read(record))
        return compile(source, self._prefix + record, "exec", dont_inherit=True)

    def get_source(self, fullname):
        source = bytes(self.archive.read(self._source(fullname)))
        return importlib.util.decode_source(source)

    def is_package(self, fullname):
        return self._tree.is_package(self._demangle(fullname))

    def get_filename(self, fullname):
        return self._prefix + self._source(fullname)

    def get_data(self, path):
        """The record behind a path below a module's `__file__` or `__path__` (pkgutil.get_data)."""
        record = path[len(self._prefix) :] if path.startswith(self._prefix) else path
        if record not in self.archive.names:
            raise FileNotFoundError(f"{self.filename} has no record {record}")
        return bytes(self.archive.read(record))

    def get_resource_reader(self, fullname):
        name = self._demangle(fullname)
        if name not in self._tree.sources or not self._tree.is_package(name):
            return None
        # Only interpreters that use it load importlib.resources.
        from . import resources

        return resources.Reader(self.archive, name.replace(".", "/"))

    # Names.

    def _demangle(self, name):
        return name[len(self._prefix) :] if name.startswith(self._prefix) else name

    def _is_external(self, name):
        return self._tree.extern_of(name) is not None or name in IMPLICIT_EXTERNS

    def _not_found(self, name):
        if name in self._tree.foreign:
            own = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
            return ModuleNotFoundError(
                f"the package {self.filename} has the extension module {name} for another Python "
                f"({self._tree.foreign[name]}), and this is {own}; export it again with {own}, or "
                f"load it into a pool of that Python",
                name=name,
            )
        externs = self.extern_modules
        shown = ", ".join(externs[:12]) + (f" and {len(externs) - 12} more" * (len(externs) > 12))
        return ModuleNotFoundError(
            f"no module named {name!r} in the package {self.filename}, nor among the external "
            f"modules that it declares ({shown}); export it again with "
            f"intern({name!r}), extern({name!r}) or mock({name!r})",
            name=name,
        )

    def _source(self, fullname):
        record = self._tree.sources.get(self._demangle(fullname))
        if record is None:
            raise ImportError(f"{fullname} has no source in {self.filename}", name=fullname)
        return record

    def _record(self, package, resource):
        """The path of a resource of a package, which may be given as a module or a name."""
        name = package if isinstance(package, str) else package.__name__
        if "/" in resource:
            raise ValueError(f"{resource!r} must be only a file name")
        folder = self._demangle(name).replace(".", "/")
        record = f"{folder}/{resource}" if folder else resource
        if record not in self.archive.names:
            raise FileNotFoundError(f"{self.filename} has no record {record}")
        return record


class _ExternLoader:
    """Makes a mangled name an alias of an external module."""

    def __init__(self, name):
        self._name = name
        self._spec = None

    def create_module(self, spec):
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module):
        # importlib has just set the alias's spec (_init_module_attrs).
        module.__spec__ = self._spec


# Names that importlib, inspect, warnings and unittest look up on every module of `sys.modules`.
_PROBES = frozenset({"__all__", "__path__", "__warningregistry__", "__wrapped__"})


def _without_probes(mocked_getattr):
    """The `__getattr__` of a mocked module without the names that Python itself looks up. The original
    answers every name with a MockedObject. A lookup by Python does not use the module."""

    def __getattr__(name):
        if name in _PROBES:
            raise AttributeError(name)
        return mocked_getattr(name)

    return __getattr__


class _Finder:
    """Finds mangled names by their importer. It is the first entry of `sys.meta_path`."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        identity = mangled_identity(fullname)
        importer = _importers.get(identity)
        return importer.find_spec(fullname) if importer is not None else None


def _look_into_archives():
    """Lets importlib.machinery.FileFinder find libraries in folders of archives. Packages look for their
    own library with it, in the folder of their `__file__`, and load it by torch.ops
    (torchvision/_internally_replaced_utils.py). Nothing changes for other folders."""
    finder = importlib.machinery.FileFinder
    if getattr(finder.find_spec, "_hydrozoa", False):
        return
    plain = finder.find_spec

    def find_spec(self, fullname, target=None):
        match = _MANGLED.search(self.path)
        importer = _importers.get(int(match[1])) if match else None
        if importer is None:
            return plain(self, fullname, target)
        # FileFinder puts the current folder in front of a path that is not absolute.
        return importer.find_file(self, self.path[match.end() + 1 :], fullname)

    find_spec._hydrozoa = True
    finder.find_spec = find_spec


# The archives of this interpreter, by their numbers.
_importers = {}


def install(
    identity,
    label,
    names,
    read,
    storage,
    open,
    library=None,
    read_only=False,
    kind=PackageImporter,
    resident=None,
    code=None,
):
    """The importer of archive `identity`, made at the first call."""
    importer = _importers.get(identity)
    if importer is None:
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
        archive = Archive(label, names, read, storage, open, library, read_only, resident, code)
        if any(name.endswith(".so") for name in archive.names):
            _look_into_archives()
        importer = _importers.setdefault(identity, kind(archive, identity))
    return importer


def installed():
    """The importers of this interpreter."""
    return list(_importers.values())


def find(identity):
    """The importer of archive `identity`, or None if it is not in this interpreter."""
    return _importers.get(identity)


def remove(identity):
    """Takes an archive out of this interpreter."""
    importer = _importers.pop(identity, None)
    if importer is not None:
        importer.unload()
        # typing caches the aliases of annotations (`Optional[Weights]`). They keep the package's
        # classes, these its modules, and these the archive's pages. CPython's own tests clear the
        # caches by this registry (Lib/test/libregrtest/utils.py, clear_caches).
        for clear in getattr(typing, "_cleanups", ()):
            clear()
