"""torch storages over memory that all interpreters share.

The host passes such memory as an object with `__dlpack__`, as one-dimensional uint8. torch keeps the
memory alive until it calls DLPack's deleter. The deleter is the host's. It runs on any thread that frees
the storage, and needs no GIL. (The deleter of a storage from torch.frombuffer takes this interpreter's
GIL. Two interpreters that free each other's storages would then wait for each other.)
"""

from . import devices


def shared_storage(memory, nbytes, read_only=False):
    """A torch.UntypedStorage over `memory`, an object with `__dlpack__`, of `nbytes` bytes. In the
    interpreter that owns the memory, `memory` is the storage itself. A read-only storage raises when
    something would write to it."""
    import torch

    if isinstance(memory, torch.UntypedStorage):
        return memory
    if nbytes == 0:
        # DLPack has no address for an empty tensor.
        return torch.UntypedStorage(0)
    tensor = devices.adopt(memory)
    if read_only:
        # torch's own flag of a storage (c10::StorageImpl::throw_on_mutable_data_ptr): operators ask
        # for a mutable pointer where they write, and for a const one where they read.
        torch._C._set_throw_on_mutable_data_ptr(tensor)
    return tensor.untyped_storage()


def typed(storage, dtype):
    """A TypedStorage, as torch's rebuild functions take it, without its warning."""
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
