"""Resources of packaged modules, for importlib.resources."""

import io
import sys

if sys.version_info >= (3, 11):
    from importlib.resources.abc import Traversable, TraversableResources
else:
    from importlib.abc import Traversable, TraversableResources


class Reader(TraversableResources):
    """The resource reader that `importlib.resources.files(module)` gets from the module's loader."""

    def __init__(self, archive, folder):
        self._archive = archive
        self._folder = folder

    def files(self):
        return Resource(self._archive, self._folder)


class Resource(Traversable):
    """One file or folder of an archive."""

    def __init__(self, archive, path):
        self._archive = archive
        self._path = path

    @property
    def name(self):
        return self._path.rpartition("/")[2]

    def __repr__(self):
        return f"<resource {self._path!r} of {self._archive.label!r}>"

    def is_file(self):
        return self._path in self._archive.names

    def is_dir(self):
        prefix = self._path + "/"
        return any(name.startswith(prefix) for name in self._archive.names)

    def iterdir(self):
        prefix = self._path + "/"
        below = {
            name[len(prefix) :].partition("/")[0]
            for name in self._archive.names
            if name.startswith(prefix)
        }
        for name in sorted(below):
            yield Resource(self._archive, prefix + name)

    def joinpath(self, *descendants):
        parts = [part for path in descendants for part in str(path).split("/") if part != "."]
        if ".." in parts:
            raise ValueError(f"a resource's path must not leave its package: {descendants}")
        return Resource(self._archive, "/".join([self._path, *filter(None, parts)]))

    def __truediv__(self, child):
        return self.joinpath(child)

    def read_bytes(self):
        if not self.is_file():
            raise FileNotFoundError(f"{self._archive.label} has no record {self._path}")
        return bytes(self._archive.read(self._path))

    def read_text(self, encoding=None, errors="strict"):
        return self.read_bytes().decode(encoding or "utf-8", errors)

    def open(self, mode="r", *args, **kwargs):
        if mode not in ("r", "rt", "rb"):
            raise ValueError(f"a resource can only be read, not opened with mode {mode!r}")
        stream = io.BytesIO(self.read_bytes())
        return stream if mode == "rb" else io.TextIOWrapper(stream, *args, **kwargs)
