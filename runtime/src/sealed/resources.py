"""What few programs need of a sealed application's finder: resources, distributions, and changes to modules that read the machine's files.

It is the frozen module `_hydrozoa_sealed_resources`, which `_hydrozoa_sealed` imports when it is needed.
"""

import io
import os
import pathlib
import sys

import _hydrozoa_sealed as sealed

try:
    from importlib.resources.abc import TraversableResources
except ImportError:  # Python 3.10
    from importlib.abc import TraversableResources


class Path(pathlib.PurePosixPath):
    """A file or directory in the application's file: a Traversable of importlib.resources, and a path of importlib.metadata."""

    __slots__ = ()

    def exists(self):
        return self.is_file() or self.is_dir()

    def is_file(self):
        return sealed.find_file(str(self)) is not None

    def is_dir(self):
        return sealed.is_directory(str(self))

    def iterdir(self):
        found = sealed.listing(sealed.inner_path(str(self)))
        if found is None:
            kind, number, text = (NotADirectoryError, 20, "Not a directory") if self.is_file() else (FileNotFoundError, 2, "No such directory")
            raise kind(number, text, str(self))
        return (self / name for name in found[0])

    def open(self, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
        if set(mode) - set("rbt"):
            raise OSError(30, "Read-only file system", str(self))
        file = io.BytesIO(self.read_bytes())
        return file if "b" in mode else io.TextIOWrapper(file, encoding, errors, newline)

    def read_bytes(self):
        return sealed.read(str(self))

    def read_text(self, encoding=None, errors=None):
        with self.open("r", encoding=encoding, errors=errors) as file:
            return file.read()


# importlib.resources


class Reader(TraversableResources):
    """The resources beside a module."""

    def __init__(self, folder):
        self._folder = Path(folder)
        _serve_as_file()

    def files(self):
        return self._folder

    def resource_path(self, resource):
        path = self._folder / resource
        if _is_copied(path):
            raise FileNotFoundError(resource)  # The caller copies it into a temporary file.
        return str(path)


def namespace_reader(path):
    """The reader of a namespace package."""
    from importlib.readers import MultiplexedPath, NamespaceReader

    folders = list(path)
    if not any(sealed.inner_path(folder) is not None for folder in folders):
        return NamespaceReader(path)
    _serve_as_file()

    class Portions(MultiplexedPath):
        def __init__(self, *paths):
            self._paths = [_any_path(path) for path in dict.fromkeys(paths)]
            if not all(path.is_dir() for path in self._paths):
                raise NotADirectoryError("MultiplexedPath only supports directories")

    reader = NamespaceReader.__new__(NamespaceReader)
    reader.path = Portions(*folders)
    return reader


def _any_path(path):
    if not isinstance(path, str):
        return path
    return pathlib.Path(path) if sealed.inner_path(path) is None else Path(path)


def _is_copied(path):
    """Whether a program that asks for a path gets a copy. One that may not write, or could open the path as it is, gets the path itself."""
    return sealed.is_allowed("tmp") and not os.path.exists(path)


def _serve_as_file():
    from contextlib import nullcontext
    from importlib.resources import as_file

    if Path not in as_file.registry:
        stock = as_file.dispatch(object)

        @as_file.register(Path)
        def sealed_path(path):
            if _is_copied(path):
                return stock(path)
            return nullcontext(pathlib.Path(path) if os.path.exists(path) else path)


# importlib.metadata


def find_distributions(context=None):
    """The distributions below the root."""
    from importlib.metadata import DistributionFinder, PathDistribution

    context = context or DistributionFinder.Context()
    for entry in context.path:
        inner = sealed.inner_path(str(entry))
        found = None if inner is None else _metadata(inner)
        if found is None:
            continue
        if context.name is None:
            names = [name for group in found.values() for name in group]
        else:
            names = found.get(_normal(context.name), ())
        for name in names:
            yield PathDistribution(Path(f"{sealed._inside}{inner}/{name}"))


_found = {}


def _metadata(inner):
    """The names of a directory's entries with metadata, by the normal name of their distribution."""
    if inner not in _found:
        found = sealed.listing(inner)
        if found is None:
            return None
        groups = {}
        for name in found[0]:
            stem, dot, kind = name.rpartition(".")
            if kind.lower() in ("dist-info", "egg-info"):
                groups.setdefault(_normal(stem.partition("-")[0]), []).append(name)
        _found[inner] = groups
    return _found[inner]


def _normal(name):
    """The name by which PEP 503 compares distributions, as it is in names of files."""
    import re

    return re.sub(r"[-_.]+", "_", name).lower()


# zoneinfo


def change_tzpath(module):
    """Looks for no time zones on the machine. A program may still name directories with them."""
    if sealed.is_allowed("zone"):
        return
    stock = module.reset_tzpath

    def reset_tzpath(to=None):
        stock(() if to is None else to)

    module.reset_tzpath = reset_tzpath
    reset_tzpath()


def change_zoneinfo(module):
    """Says how to have time zones."""
    if sealed.is_allowed("zone"):
        return
    stock = module.load_tzdata

    def load_tzdata(key):
        try:
            return stock(key)
        except module.ZoneInfoNotFoundError as error:
            advice = "seal this application with --with tzdata, or --allow zone for the machine's"
            raise module.ZoneInfoNotFoundError(f"{error.args[0]} ({advice})") from error.__cause__

    module.load_tzdata = load_tzdata


# ssl


def change_ssl(module):
    """Reads no certificates of the machine, unless that is allowed."""
    if sealed.is_allowed("certs"):
        return

    def nothing(self, *arguments, **named):
        """The machine's certificates do not count."""

    def get_default_verify_paths():
        import _ssl

        names = _ssl.get_default_verify_paths()
        return module.DefaultVerifyPaths(None, None, *names)

    context = module.SSLContext
    context.set_default_verify_paths = context.load_default_certs = nothing
    module.get_default_verify_paths = get_default_verify_paths
    for kind in (module.SSLSocket, module.SSLObject):
        kind.do_handshake = _explain(module, kind.do_handshake)


def _explain(module, stock):
    """Adds to the error of a peer whose certificate nobody could verify how to have certificates."""

    def do_handshake(self, *arguments, **named):
        try:
            return stock(self, *arguments, **named)
        except module.SSLCertVerificationError as error:
            if not self.context.cert_store_stats()["x509_ca"]:
                error.strerror = f"{error.strerror} (the machine's certificates are not for this sealed application; seal it with --allow certs, or use certifi)"
                error.args = error.args[:1] + (error.strerror,)
            raise

    return do_handshake


# pkg_resources


def change_pkg_resources(module):
    """Lets pkg_resources find resources and distributions in the application's file."""

    class Provider(module.EggProvider):
        def _has(self, path):
            return Path(path).exists()

        def _isdir(self, path):
            return Path(path).is_dir()

        def _listdir(self, path):
            return [entry.name for entry in Path(path).iterdir()]

        def get_resource_stream(self, manager, resource_name):
            return io.BytesIO(self._get(self._fn(self.module_path, resource_name)))

        def _get(self, path):
            return sealed.read(path)

    class Metadata(Provider):
        def __init__(self, path, egg_info):
            self.module_path, self.egg_info = path, egg_info

    def distributions(importer, path_item, only=False):
        for names in (_metadata(sealed.inner_path(path_item)) or {}).values():
            for name in names:
                metadata = Metadata(path_item, f"{path_item}/{name}")
                yield module.Distribution.from_location(path_item, name, metadata, precedence=module.DEVELOP_DIST)

    module.register_loader_type(sealed.Loader, Provider)
    module.register_loader_type(sealed.ExtensionLoader, Provider)
    module.register_finder(sealed.Folder, distributions)
    module.working_set.entries.clear()
    for path in sys.path:
        module.working_set.add_entry(path)
