"""Unpickling of records of a torch.package archive."""

import _compat_pickle
import io
import operator
import pickle
import sys

from . import devices
from .storages import shared_storage, typed

# Names that numpy has dropped and that pickles still use (torch.package maps them as well).
_NUMPY_NAMES = {"str": str, "bool": bool}


class PackageUnpickler(pickle.Unpickler):
    """Resolves names through an importer and storages through its archive."""

    def __init__(self, importer, data, map_location=None):
        super().__init__(io.BytesIO(data))
        self.importer = importer
        self.map_location = map_location
        self._python2_names = _protocol(data) < 3
        self._storages = {}
        self._reduced = {}
        self._context = None
        # StorageImpl address -> record, for the storages in the context.
        self._records = {}
        self._reader = None

    def load(self):
        result = super().load()
        if self._storages:
            # The unpickler has to check sparse tensors after they were rebuilt (torch/_utils.py).
            import torch

            torch._utils._validate_loaded_sparse_tensors()
        return result

    def find_class(self, module, name):
        if self._python2_names:
            if (module, name) in _compat_pickle.NAME_MAPPING:
                module, name = _compat_pickle.NAME_MAPPING[module, name]
            elif module in _compat_pickle.IMPORT_MAPPING:
                module = _compat_pickle.IMPORT_MAPPING[module]
        found = self.importer.import_module(module)
        if module == "numpy" and name in _NUMPY_NAMES and not hasattr(found, name):
            return _NUMPY_NAMES[name]
        return operator.attrgetter(name)(found)

    def persistent_load(self, saved):
        if not isinstance(saved, tuple) or not saved:
            raise pickle.UnpicklingError(f"a persistent id must be a tuple, not {saved!r}")
        kind = saved[0].decode("ascii") if isinstance(saved[0], bytes) else saved[0]
        if kind == "storage" and len(saved) == 5:
            return self._storage(*saved[1:])
        if kind == "reduce_package" and len(saved) in (3, 4):
            # ("reduce_package", function, arguments). Since torch 1.12 an id comes second; the same id
            # means the same object.
            *identity, function, arguments = saved[1:]
            if not identity:
                return self._call(function, arguments)
            if identity[0] not in self._reduced:
                self._reduced[identity[0]] = self._call(function, arguments)
            return self._reduced[identity[0]]
        raise pickle.UnpicklingError(
            f"the persistent id {saved!r} is neither ('storage', type, key, location, size) "
            "nor ('reduce_package', ...)"
        )

    def _storage(self, storage_type, key, location, numel):
        import torch

        untyped = storage_type is torch.UntypedStorage
        # `_dtype`, because `dtype` warns that typed storages are deprecated.
        dtype = torch.uint8 if untyped else storage_type._dtype
        if key not in self._storages:
            record = f".data/{key}.storage"
            archive = self.importer.archive
            if record not in archive.names:
                raise pickle.UnpicklingError(f"{archive.label} has no record {record}")
            nbytes = numel * dtype.itemsize
            memory = archive.storage(record)
            storage = shared_storage(memory, nbytes, archive.read_only)
            if storage.nbytes() < nbytes:
                raise pickle.UnpicklingError(
                    f"{archive.label}: {record} has {storage.nbytes()} bytes, "
                    f"and a pickled tensor needs {nbytes}"
                )
            location = location.decode("ascii") if isinstance(location, bytes) else location
            self._storages[key] = self._placed(storage, record, location)
        return typed(self._storages[key], dtype)

    def _placed(self, storage, record, location):
        """The storage at its location: in main memory as it is, on a device by an upload that all
        interpreters share."""
        import torch

        target = devices.destination(self.map_location, location)
        if target is None:
            # The function makes a storage that is this interpreter's own.
            placed = self.map_location(storage, location)
            if placed is not None:
                return placed
            target = location
        if target == "cpu":
            return storage
        place = self._place(target)
        if place is None:
            return torch.serialization.default_restore_location(storage, target)
        return self._uploaded(storage, record, place)

    def _place(self, location):
        return devices.find(location) if self.importer.archive.resident is not None else None

    def _uploaded(self, storage, record, place):
        """The storage of a record on a device. It is uploaded if no interpreter has done so."""
        self._check(place, record)
        archive = self.importer.archive
        nbytes = storage.nbytes()
        if nbytes == 0:
            return place.backend.upload(storage, place.index)

        def upload():
            # Not from `storage`, which may be read-only and refuse to give a pointer.
            return place.upload(shared_storage(archive.storage(record), nbytes))

        memory = archive.resident(record, place.location, None, upload)
        return shared_storage(memory, nbytes, archive.read_only)

    def _check(self, place, record):
        """Makes the host raise its error if this interpreter cannot use a device."""
        obstacle = place.obstacle()
        if obstacle is not None:
            self.importer.archive.resident(record, str(place), obstacle, None)

    def _call(self, function, arguments):
        script = sys.modules.get("torch.jit._script")
        if script is not None and function is script.unpackage_script_module:
            return self._script_module(function, *arguments)
        return function(self.importer, *arguments)

    def _script_module(self, unpackage, script):
        """A TorchScript module. torch reads it and moves each tensor to its device. Tensors over the
        archive's storages then get the upload that all interpreters share."""
        import torch

        target = devices.destination(self.map_location, "cpu")
        place = None if target is None else self._place(target)
        if place is not None:
            self._check(place, f".data/ts_code/{script}/data.pkl")
        module = unpackage(self.importer, script)
        moved = {
            name: tensor
            for name, tensor in _tensors(module)
            if self._place(str(tensor.device)) is not None and tensor.numel()
        }
        if not moved:
            return module
        # The same module in main memory is over the archive's pages. It shows which record each tensor is.
        outer, self.map_location = self.map_location, "cpu"
        try:
            plain = dict(_tensors(unpackage(self.importer, script)))
        finally:
            self.map_location = outer
        for name, tensor in moved.items():
            source = plain[name]
            record = self._records.get(source.untyped_storage()._cdata)
            if record is None:
                continue
            place = self._place(str(tensor.device))
            storage = self._uploaded(source.untyped_storage(), record, place)
            view = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            tensor.data = view.set_(
                storage, source.storage_offset(), source.size(), source.stride()
            )
        return module

    # For torch.jit._script.unpackage_script_module, which reads TorchScript.

    @property
    def zip_reader(self):
        if self._reader is None:
            import torch

            whole = memoryview(self.importer.archive.open())
            self._reader = torch._C.PyTorchFileReader(_File(whole))
        return self._reader

    @property
    def storage_context(self):
        """The archive's storages, by which interpreters share TorchScript's parameters as well."""
        if self._context is None:
            import torch

            archive = self.importer.archive
            self._context = torch._C.DeserializationStorageContext()
            for record in archive.names:
                if record.startswith(".data/") and record.endswith(".storage"):
                    memory = archive.storage(record)
                    tensor = torch.from_dlpack(memory)
                    if archive.read_only:
                        torch._C._set_throw_on_mutable_data_ptr(tensor)
                    self._context.add_storage(record[6:], tensor)
                    self._records[tensor.untyped_storage()._cdata] = record
        return self._context


def _tensors(module):
    """Parameters and buffers with their names."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


class _File(io.RawIOBase):
    """A readable file over memory, without a copy of it (io.BytesIO would make one)."""

    def __init__(self, memory):
        self._memory = memory
        self._position = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._memory)}
        self._position = max(0, origin[whence] + offset)
        return self._position

    def tell(self):
        return self._position

    def readinto(self, buffer):
        part = self._memory[self._position : self._position + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)


def _protocol(data):
    """The protocol that a pickle states. Protocols 0 and 1 state none."""
    head = bytes(data[:2])
    return head[1] if len(head) == 2 and head[0] == 0x80 else 0
