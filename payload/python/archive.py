"""An archive's records, as the host provides them to the importer."""


class Archive:
    """The records of one archive.

    `names` are paths as in the archive, without its top folder.
    `read(name)` returns a record's bytes as a bytes-like object, checked against its CRC-32.
    `storage(name)` returns an object with `__dlpack__` over a record as one-dimensional uint8. All
    interpreters share that memory.
    `open()` returns the whole file as a bytes-like object. Only TorchScript needs it.
    `library(name)` returns a path by which this process can load a record that is a shared library.
    `read_only` makes tensors over the storages raise when something would write to them.
    `resident(name, location, obstacle, upload)` returns an object as `storage` does, over a copy of a
    record on a device (devices.py). `upload()` makes the copy if this process has none. The host raises
    an error if there is an obstacle. Without this function, every interpreter makes its own copy.
    `code` is a pair of functions by which interpreters share compiled code: `find(key)` returns the
    bytes that some interpreter passed to `keep(key, data)`, or None.
    """

    def __init__(
        self,
        label,
        names,
        read,
        storage,
        open,
        library=None,
        read_only=False,
        resident=None,
        code=None,
    ):
        self.label = label
        self.names = frozenset(names)
        self.read = read
        self.storage = storage
        self.open = open
        self.library = library
        self.read_only = read_only
        self.resident = resident
        self.find_code, self.keep_code = code or (None, None)

    def text(self, name):
        return bytes(self.read(name)).decode("utf-8")
