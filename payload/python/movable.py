"""Moving an object from one interpreter to others.

An object is pickled once. Its large parts are not copied: torch storages, and buffers that pickle
protocol 5 passes out of band (numpy arrays). The pickle has only their addresses, and every
interpreter builds its own storage or array over the same memory. So ties and views between tensors
remain, and interpreters see each other's writes, as threads of one interpreter do.

Modules of packages keep their names: `<torch_package_N>.name` is the same module of the same archive in
every interpreter (package.py). The caller installs the archives before it loads an object.
"""

import builtins
import importlib
import io
import pickle
import re
import sys

from . import devices, package
from .storages import shared_storage, typed

# DLDeviceType of main memory.
_CPU = 1

_PACKAGE_NAME = re.compile(rb"<torch_package_(\d+)>")


def dump(obj):
    """Pickles `obj`.

    Returns `(pickle, storages, buffers, packages, copied)`:

    - storages as `(owner, address, nbytes, device type, device number, location)`. They live as long as
      their owner. The location is "" for main memory. Queued work that fills them is done.
    - buffers as contiguous memoryviews.
    - the numbers of the packages that the object needs.
    - a line for each part that was copied instead of shared, with the reason.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(obj)
    for place in map(devices.find, pickler.places):
        place.backend.finish(place.index)
    data = stream.getvalue()
    # The pickle has names in plain text. A string that only looks like one does no harm: the caller
    # ignores numbers that it does not know.
    named = {int(number) for number in _PACKAGE_NAME.findall(data)}
    packages = sorted(named | pickler.packages)
    return data, pickler.storages, pickler.buffers, packages, pickler.copied


def load(data, storages, buffers):
    """The inverse: `storages` are pairs of an object with `__dlpack__` (or the owner that `dump`
    gave, in its own interpreter) and its size in bytes; `buffers` are bytes-like."""
    return _Unpickler(data, storages, buffers).load()


class _Pickler(pickle.Pickler):
    def __init__(self, stream):
        buffers = []
        # Not a method: the pickler would refer to itself, and only the garbage collector would free it
        # and the objects in its memo.
        super().__init__(stream, protocol=5, buffer_callback=lambda buffer: _take(buffer, buffers))
        self.storages = []
        self.buffers = buffers
        self.copied = []
        # StorageImpl address -> index into `storages`. Several Python objects may stand for one.
        self._indices = {}
        self._copies = {}
        self._reduced = {}
        self._kept = []
        self.packages = set()
        # Devices that hold storages, by their locations.
        self.places = set()
        # Without an imported torch no storages exist. A thread may be importing it: no object has a class that torch has not
        # defined yet.
        torch, jit = map(sys.modules.get, ("torch", "torch.jit"))
        self._torch = torch if hasattr(torch, "UntypedStorage") else None
        self._script_module, self._script_function = (
            getattr(jit, name, ()) for name in ("ScriptModule", "ScriptFunction")
        )

    def persistent_id(self, obj):
        # torch::deploy's hook, which torch.fx has. It returns a function that makes the object in another
        # interpreter from the importer there.
        if hasattr(type(obj), "__reduce_deploy__") and not isinstance(obj, type):
            return self._deployed(obj)
        torch = self._torch
        if torch is None:
            return None
        if isinstance(obj, torch.UntypedStorage):
            return self._storage_id(obj, None)
        if isinstance(obj, torch.storage.TypedStorage):
            return self._storage_id(obj._untyped_storage, obj._dtype)
        return None

    def reducer_override(self, obj):
        if isinstance(obj, self._script_module):
            return self._reduce_script(obj)
        if isinstance(obj, self._script_function):
            return _load_script, (self._script(obj), {})
        return NotImplemented

    def _deployed(self, obj):
        if id(obj) in self._reduced:
            return self._reduced[id(obj)]
        failure = None
        for identity, importer in _orders(obj):
            try:
                function, arguments = obj.__reduce_deploy__(importer)
                break
            except Exception as error:
                # This importer has no names for what the object refers to.
                failure = failure or error
        else:
            raise pickle.PicklingError(
                f"{type(obj).__name__}.__reduce_deploy__ failed with every importer: {failure}"
            ) from failure
        if identity is not None:
            self.packages.add(identity)
        # The object lives as long as this pickler, so its id is its own.
        saved = "deploy", len(self._reduced), identity, function, arguments
        self._kept.append(obj)
        self._reduced[id(obj)] = saved
        return saved

    def _storage_id(self, storage, dtype):
        device = storage.device
        nbytes = storage.nbytes()
        if device.type == "meta" or nbytes == 0:
            return "new", nbytes, str(device), dtype
        place = devices.find(str(device))
        if place is not None:
            (kind, number), location = place.backend.place(place.index), place.location
        elif device.type == "cpu":
            kind, number, location = _CPU, 0, ""
        else:
            self.copied.append(
                f"a storage of {nbytes} bytes on {device}: "
                f"memory of {device.type} devices cannot be passed by DLPack between interpreters"
            )
            return "copied", bytes(storage.cpu()), str(device), storage._cdata, dtype
        if storage._cdata not in self._indices:
            try:
                address = storage.data_ptr()
            except RuntimeError:
                # A read-only storage of a package, which has no mutable pointer.
                return self._copied(storage, dtype)
            if not location:
                _hold_in_place(self._torch, storage)
            self._indices[storage._cdata] = len(self.storages)
            self.storages.append((storage, address, nbytes, kind, number, location))
            if location:
                self.places.add(location)
        return "shared", self._indices[storage._cdata], None, dtype

    def _copied(self, storage, dtype):
        if storage._cdata not in self._copies:
            self.copied.append(
                f"a storage of {storage.nbytes()} bytes: it is read-only; the package's own "
                "movable (load_pickle) shares it"
            )
            copy = self._torch.empty(0, dtype=self._torch.uint8).set_(storage).clone()
            self._copies[storage._cdata] = "copied", copy.numpy().tobytes(), "cpu", storage._cdata
        return (*self._copies[storage._cdata], dtype)

    def _reduce_script(self, module):
        shared = dict(module.named_parameters(remove_duplicate=False))
        shared.update(module.named_buffers(remove_duplicate=False))
        return _load_script, (self._script(module), shared)

    def _script(self, obj):
        stream = io.BytesIO()
        self._torch.jit.save(obj, stream)
        self.copied.append(
            f"{type(obj).__name__}: TorchScript has its own archive format; parameters and "
            "buffers are shared after loading, constants and other tensors are not"
        )
        return stream.getvalue()


def _hold_in_place(torch, storage):
    """Has torch refuse to resize a storage in main memory: others get its address.

    As for a tensor of which numpy has a view (tensor_to_numpy, torch/csrc/utils/tensor_numpy.cpp),
    and by the same means: torch has no other. Without numpy the storage stays resizable.
    """
    if not storage.resizable():
        return
    try:
        torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    except RuntimeError:
        pass  # numpy is missing, or a mode without memory is active.


class _System:
    """Takes the place of a PackageImporter for objects of no package."""

    patched_builtins = vars(builtins)
    import_module = staticmethod(importlib.import_module)


_system = _System()


def _orders(obj):
    """Importers that may name what `obj` refers to, each with the number of its archive. The number
    is None for the interpreter's own modules. The archive of the object's class comes first."""
    own = package.mangled_identity(type(obj).__module__)
    if "torch" not in sys.modules:
        importer = package.find(own)
        return [(None, _system)] if importer is None else [(own, importer)]
    # Only torch's own classes ask their importer for names, and expect torch.package's interface.
    from torch.package import OrderedImporter, sys_importer

    from .torch_importers import Packaged

    archives = sorted(package.installed(), key=lambda importer: importer.identity != own)
    ordered = [(one.identity, OrderedImporter(Packaged(one), sys_importer)) for one in archives]
    return [*ordered, (None, sys_importer)]


def _take(buffer, buffers):
    try:
        view = buffer.raw()
    except BufferError:
        return True  # Not contiguous: in band, as pickle does without a callback.
    if view.nbytes == 0:
        return True
    buffers.append(view)
    return False


class _Unpickler(pickle.Unpickler):
    def __init__(self, data, storages, buffers):
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._sources = storages
        self._storages = {}
        self._copies = {}
        self._reduced = {}

    def load(self):
        result = super().load()
        if self._storages:
            import torch

            torch._utils._validate_loaded_sparse_tensors()
        return result

    def find_class(self, module, name):
        if (module, name) == ("torch._utils", "_rebuild_tensor_v3"):
            return _rebuild_tensor_v3
        return super().find_class(module, name)

    def persistent_load(self, saved):
        if saved[0] == "deploy":
            _, index, identity, function, arguments = saved
            if index not in self._reduced:
                importer = _system if identity is None else package.find(identity)
                self._reduced[index] = function(importer, *arguments)
            return self._reduced[index]
        import torch

        kind, what, device, *same, dtype = saved
        if kind == "shared":
            if what not in self._storages:
                self._storages[what] = shared_storage(*self._sources[what])
            storage = self._storages[what]
        elif kind == "new":
            storage = torch.UntypedStorage(what, device=device)
        elif kind == "copied":
            # Tensors of one storage stay tied.
            if same[0] not in self._copies:
                tensor = torch.frombuffer(bytearray(what), dtype=torch.uint8)
                self._copies[same[0]] = tensor.to(device).untyped_storage()
            storage = self._copies[same[0]]
        else:
            raise pickle.UnpicklingError(f"unknown persistent id {saved!r}")
        return storage if dtype is None else typed(storage, dtype)


def _rebuild_tensor_v3(storage, *arguments):
    # A tensor of a newer dtype is pickled with its untyped storage and unpickled with a typed one
    # (torch's own persistent_load never returns anything else).
    import torch

    return torch._utils._rebuild_tensor_v3(typed(storage, torch.uint8), *arguments)


def _load_script(data, shared):
    import torch

    loaded = torch.jit.load(io.BytesIO(data))
    if shared:
        own = dict(loaded.named_parameters(remove_duplicate=False))
        own.update(loaded.named_buffers(remove_duplicate=False))
        with torch.no_grad():
            for name, tensor in shared.items():
                own[name].set_(tensor)
    return loaded
