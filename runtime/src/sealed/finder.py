"""The module finder of a sealed application. All modules come out of the application's file, none from the machine.

The sealer compiles this source, and the interpreter has it as the frozen module `_hydrozoa_sealed` before it has any file. So the
module's top imports only what every interpreter has built in. `_hydrozoa_sealed_resources` has the parts that few programs need.

The file's record for the finder, `boot`, says where the listing of each directory is. A listing stays marshalled until it is needed, and so
does `others`, the places of listings that no start needs. A listing is a pair:

    ({name of a file: (offset, length), name of a directory: None}, {name of a module: (is a package, its file, offset, length of code)})

The view over the file is shared memory: code is unmarshalled from it without a copy.
"""

import sys
from _frozen_importlib import FrozenImporter, ModuleSpec, _find_and_load_unlocked
from _frozen_importlib_external import ExtensionFileLoader, PathFinder, SourceFileLoader, decode_source
from marshal import loads

_view = memoryview(b"")
_boot = {}
_directories = {}
"""Directory below the root -> the place of its listing, or the listing itself once it was needed."""
_root = _inside = None
"""The path of the root, without and with a slash at the end."""


def install(view, offset, length):
    """Serves all imports from the file in `view`, whose boot record is at `offset`."""
    global _view, _boot, _directories, _root, _inside
    _view = view
    _boot = loads(view[offset : offset + length])
    _directories, _root = _boot["directories"], _boot["root"]
    _inside = _root + "/"
    # Frozen modules of the standard library get their `__file__` by it. Python looks for the directory on the machine.
    sys._stdlib_dir = _stdlib()
    allowed = [word for word in _boot["allow"] if word.startswith("/")]
    sys.path[:] = [_inside + path for path in _boot["paths"]] + allowed
    sys.path_hooks.insert(0, path_hook)
    sys.path_importer_cache.clear()
    sys.meta_path.append(Last)
    _add_builtins()
    if sys.version_info >= (3, 11):
        _name_files_of_frozen()
    _repair_frozen(_boot["frozen"])
    _run_lines(_boot["lines"])


def is_allowed(word):
    """Whether the application was sealed with `--allow WORD`."""
    return word in _boot["allow"]


# The file's directories


def inner_path(path):
    """A path without the root, "." and ".."; None for a path of the machine."""
    if path == _root:
        return ""
    if not path.startswith(_inside):
        return None
    inner = path[len(_inside) :]
    if "/." not in path and "//" not in path and inner[-1:] != "/":
        return inner
    parts = []
    for part in inner.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def listing(inner):
    """The listing of a directory, None if there is no such directory."""
    found = _directories.get(inner)
    if found is None:
        others = _boot.get("others")
        if others is not None:
            offset, length = others
            _directories.update(loads(_view[offset : offset + length]))
            _boot["others"] = None
        # Another thread may have fetched them meanwhile.
        found = _directories.get(inner)
    if found is not None and type(found[0]) is int:
        offset, length = found
        found = _directories[inner] = loads(_view[offset : offset + length])
    return found


def find_file(path):
    """The offset and length of a stored file; None if there is no such file."""
    inner = inner_path(path)
    if inner is None:
        return None
    folder, _, name = inner.rpartition("/")
    found = listing(folder)
    return None if found is None else found[0].get(name)


def is_directory(path):
    inner = inner_path(path)
    return inner is not None and listing(inner) is not None


def read(path):
    """The bytes of a stored file."""
    place = find_file(path)
    if place is None:
        if is_directory(path):
            raise IsADirectoryError(21, "Is a directory", path)
        raise FileNotFoundError(2, "No such file in this sealed application", path)
    offset, length = place
    return _view[offset : offset + length].tobytes()


# Finders


def path_hook(path):
    """The finder of a directory. No other hook is asked for a path below the root, unless it leads to a file, such as an archive."""
    inner = inner_path(path) if isinstance(path, str) else None
    if _is_for_others(inner):
        raise ImportError("only directories of the sealed application are supported", path=path)
    found = listing(inner)
    return None if found is None else Folder(path.rstrip("/"), found)


def _is_for_others(inner):
    """Whether a path is the machine's, or leads to a stored file or into one."""
    if inner is None:
        return True
    while inner and listing(inner) is None:
        if find_file(_inside + inner) is not None:
            return True
        inner = inner.rpartition("/")[0]
    return False


class Folder:
    """Finds the modules in one directory, as FileFinder does."""

    def __init__(self, path, found):
        self.path = path
        self.files, self.modules = found

    def find_spec(self, fullname, target=None):
        tail = fullname.rpartition(".")[2]
        found = self.modules.get(tail)
        if found is None:
            if tail in self.files and self.files[tail] is None:
                spec = ModuleSpec(fullname, None)
                spec.submodule_search_locations = [f"{self.path}/{tail}"]
                return spec
            return None
        is_package, name, offset, length = found
        path = f"{self.path}/{name}"
        if length or name[-3:] != ".so":
            kind = Loader if fullname not in _changes else ChangingLoader
            spec = ModuleSpec(fullname, kind(fullname, path, offset, length), origin=path)
            if sys.pycache_prefix is None:
                spec._cached = _cached(path)
        else:
            spec = ModuleSpec(fullname, ExtensionFileLoader(fullname, path), origin=path)
        spec._set_fileattr = True
        if is_package:
            spec.submodule_search_locations = [path.rpartition("/")[0]]
        return spec

    def iter_modules(self, prefix=""):
        """The modules for pkgutil, in the order of their files' names."""
        in_order = sorted((file.partition("/")[0], name, is_package) for name, (is_package, file, _, _) in self.modules.items())
        return [(prefix + name, is_package) for _, name, is_package in in_order if name != "__init__"]

    def invalidate_caches(self):
        """Does nothing: the file does not change."""

    def __repr__(self):
        return f"Folder({self.path!r})"


_OPTIMIZED = f".opt-{sys.flags.optimize}" if sys.flags.optimize else ""
_CACHED_SUFFIX = f".{sys.implementation.cache_tag}{_OPTIMIZED}.pyc"


def _cached(path):
    """The name that plain Python gives the file with a module's code (importlib.util.cache_from_source)."""
    if path[-3:] != ".py":
        return path
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name[:-3]}{_CACHED_SUFFIX}"


_RESOURCES = "_hydrozoa_sealed_resources"
"""The module with what few programs need. No directory lists it."""


class Last:
    """Stands last on sys.meta_path. It names the way to add a module that is missing."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """None, or an error where an import would fail. `importlib.util.find_spec` gets None."""
        if fullname == _RESOURCES:
            file = f"{_root}/{fullname}.py"
            return ModuleSpec(fullname, Loader(fullname, file, *_boot["resources"]), origin=file)
        if path is not None:
            return None
        importing = sys._getframe(1).f_back
        if importing is None or importing.f_code is not _find_and_load_unlocked.__code__:
            return None
        finders = list(sys.meta_path)
        for finder in finders[finders.index(cls) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        if fullname in sys.stdlib_module_names:
            advice = "this sealed application was made without it"
        else:
            advice = f"it is not in this sealed application; seal it with --with {fullname}"
        raise ModuleNotFoundError(f"No module named {fullname!r} ({advice})", name=fullname)

    # Frames of files with this name are cut from tracebacks of imports (remove_importlib_frames in Python/import.c).
    find_spec.__func__.__code__ = find_spec.__func__.__code__.replace(co_filename="<frozen importlib._bootstrap>")

    @staticmethod
    def invalidate_caches():
        """Does nothing: the file does not change."""


# Loaders


class Loader(SourceFileLoader):
    """Loads a module from its stored code."""

    def __init__(self, fullname, path, offset, length):
        self.name, self.path, self._offset, self._length = fullname, path, offset, length

    def get_code(self, fullname):
        if fullname != self.name:
            self.get_filename(fullname)
        if self._offset is None:
            self._find_code()
        if self._length:
            return loads(_view[self._offset : self._offset + self._length])
        # The sealer could not compile it.
        return self.source_to_code(self.get_data(self.path), self.path)

    def _find_code(self):
        """Finds the code of a module that was imported before there was a finder."""
        folder, _, name = inner_path(self.path).rpartition("/")
        if name == "__init__.py":
            folder = folder.rpartition("/")[0]
        self._offset, self._length = listing(folder)[1][self.name.rpartition(".")[2]][2:]

    def get_data(self, path):
        path = str(path)
        return super().get_data(path) if inner_path(path) is None else read(path)

    def get_source(self, fullname):
        path = self.get_filename(fullname)
        return decode_source(read(path)) if path[-3:] == ".py" and find_file(path) else None


class ChangingLoader(Loader):
    """Loads a module that the finder changes."""

    def exec_module(self, module):
        super().exec_module(module)
        _changes[self.name](module)

    # As above: an import's traceback does not show this frame.
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")


# The start


def _add_builtins():
    """Adds the builtins that the module `site` adds in plain Python, without an import of `site` and `os`: that is a tenth of the start."""
    import builtins

    from _sitebuiltins import Quitter, _Helper

    builtins.quit, builtins.exit = Quitter("quit", "Ctrl-D (i.e. EOF)"), Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.help = _Helper()
    builtins.copyright = _printer("copyright", lambda: sys.copyright)
    builtins.credits = _printer("credits", _credits)
    builtins.license = _printer("license", _license)


def _printer(name, text):
    """A printer as in Lib/_sitebuiltins.py, whose own initializer imports `os`. It fetches its text when it is first called."""
    from _sitebuiltins import _Printer

    def setup():
        if not names["_Printer__lines"]:
            names["_Printer__lines"] = text().split("\n")
            names["_Printer__linecnt"] = len(names["_Printer__lines"])

    printer = _Printer.__new__(_Printer)
    names = vars(printer)
    names.update(_Printer__name=name, _Printer__lines=None, _Printer__setup=setup)
    return printer


def _credits():
    import builtins

    import site

    kept = builtins.copyright, builtins.credits, builtins.license
    site.setcopyright()
    text = builtins.credits._Printer__data
    builtins.copyright, builtins.credits, builtins.license = kept
    return text


def _license():
    path = f"{_stdlib()}/LICENSE.txt"
    return read(path).decode("utf-8", "replace") if find_file(path) else "See https://www.python.org/psf/license/"


def _repair_frozen(names):
    """Gives modules that were imported before there was a finder the attributes that plain Python's have."""
    for name in sorted(names):
        module = sys.modules.get(name)
        if module is None or sys.version_info >= (3, 11) and name in _FROZEN_IN_PLAIN_PYTHON:
            continue
        names = vars(module)
        names.pop("__origname__", None)
        if name.startswith("_hydrozoa_"):
            names.pop("__file__", None)
            continue
        is_package = "__path__" in names
        path = f"{_stdlib()}/{name.replace('.', '/')}{'/__init__' if is_package else ''}.py"
        spec = ModuleSpec(name, Loader(name, path, None, None), origin=path, is_package=is_package)
        spec._set_fileattr, spec._cached = True, _cached(path)
        if is_package:
            spec.submodule_search_locations = names["__path__"] = [path.rpartition("/")[0]]
        names.update(__spec__=spec, __loader__=spec.loader, __package__=spec.parent, __file__=path, __cached__=spec._cached)


def _name_files_of_frozen():
    """Gives modules that CPython itself has frozen their `__file__`, for which it had no directory when it imported them."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        state = getattr(spec, "loader_state", None)
        if spec is None or spec.loader is not FrozenImporter or state is None or state.filename is not None:
            continue
        state.filename, _ = FrozenImporter._resolve_filename(state.origname, spec.name, hasattr(module, "__path__"))
        if state.filename:
            module.__file__ = state.filename


_FROZEN_IN_PLAIN_PYTHON = frozenset("_collections_abc _sitebuiltins abc codecs genericpath io os posixpath site stat".split())


def _run_lines(lines):
    """Runs the lines of `.pth` files, as site.main() does."""
    broken = None
    for name, line in lines:
        if name != broken and not _run_line(_folder_of(name), line):
            print(f"Error processing a line of {name}: {line}\nRemainder of file ignored", file=sys.stderr)
            broken = name


def _stdlib():
    return f"{_root}/lib/python{sys.version_info[0]}.{sys.version_info[1]}"


def _folder_of(name):
    """The directory of a `.pth` file."""
    for path in sys.path if "/" not in name else ():
        found = listing(inner_path(path) or "")
        if found is not None and name in found[0]:
            return path
    return f"{_root}/{name}".rpartition("/")[0] if "/" in name else f"{_stdlib()}/site-packages"


def _run_line(sitedir, line):
    """Runs a line of a `.pth` file. Lines that setuptools writes read `sitedir` out of this frame."""
    try:
        exec(line)
        return True
    except Exception as error:
        import traceback

        for part in traceback.format_exception(type(error), error, error.__traceback__):
            for text in part.splitlines():
                print("  " + text, file=sys.stderr)
        return False


def run():
    """Runs the application's entry, if it has one that is Python's."""
    kind, _, name = _words(_boot["entry"])
    if kind == "script":
        _run_script(name)
    elif kind == "function":
        from importlib import import_module

        module, _, attributes = name.partition(":")
        function = import_module(module)
        for attribute in attributes.split("."):
            function = getattr(function, attribute)
        sys.exit(function())


def _words(entry):
    return (entry if isinstance(entry, str) else " ".join(entry or ())).partition(" ")


def _run_script(name):
    """Runs a module as `python -m` does. Processes that multiprocessing spawns find it by `__main__.__spec__`."""
    spec = PathFinder.find_spec(name) if "." not in name else None
    if spec is None or spec.submodule_search_locations is not None:
        import runpy

        return runpy._run_module_as_main(name, alter_argv=False)
    names = vars(sys.modules["__main__"])
    names.update(
        __name__="__main__",
        __file__=spec.origin,
        __cached__=spec.cached,
        __doc__=None,
        __loader__=spec.loader,
        __package__=spec.parent,
        __spec__=spec,
    )
    exec(spec.loader.get_code(name), names)


# Modules that the finder changes once they are imported


def _change_tempfile(module):
    """Refuses the machine's directories for temporary files. A program may still name one."""
    if is_allowed("tmp"):
        return

    def _get_default_tempdir(*arguments):
        raise FileNotFoundError(2, "this sealed application has no directory for temporary files; seal it with --allow tmp, or give dir=")

    module._get_default_tempdir = _get_default_tempdir


def _change_later(name):
    def change(module):
        import _hydrozoa_sealed_resources

        getattr(_hydrozoa_sealed_resources, name)(module)

    return change


_changes = {
    "tempfile": _change_tempfile,
    "ssl": _change_later("change_ssl"),
    "zoneinfo._common": _change_later("change_zoneinfo"),
    "zoneinfo._tzpath": _change_later("change_tzpath"),
    "pkg_resources": _change_later("change_pkg_resources"),
}
