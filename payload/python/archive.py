"""What the importer of a package is given by the host."""


class Archive:
    """The records of one archive, as the host gives them.

    `names` are paths as in the archive, without its top folder. `read(name)` gives a record's
    bytes, checked against its CRC-32, as a bytes-like object. `storage(name)` gives an object with
    `__dlpack__` over a record as one-dimensional uint8, shared by all interpreters.
    `open()` gives the whole file as a bytes-like object; only TorchScript needs it.
    `library(name)` gives a path by which this process can load a record that is a shared library.
    With `read_only`, tensors over its storages refuse to be written.
    `resident(name, location, obstacle, upload)` gives an object as `storage` does, over a copy of a
    record on a device (devices.py): made by `upload()` if nobody in this process has one, refused
    if there is an obstacle. Without it, every interpreter makes its own.
    `code` is a pair of functions by which interpreters share what one of them has compiled:
    `find(key)` gives the bytes that `keep(key, data)` was given, in whichever interpreter, or None.
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
