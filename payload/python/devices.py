"""Memory of devices, and when it may pass from one interpreter to another.

All interpreters of a process have one address space on a CUDA device. The driver makes one primary
context for each process and device (CUDA Driver API, "Primary Context Management"), and the CUDA runtime
of every copy of libtorch uses it. So interpreters read each other's device memory at the same address.
A device works through queues (streams), and interpreters and threads may use different ones. Two moments
need care:

- Before others read, the work that fills the memory must be done. The host waits for the device
  (`upload`, `finish`) and then announces the memory under a lock. Work of others that reads the memory
  is queued later, on any stream.
- Before the memory is freed, the work of others that reads it must be done. torch's caching allocator
  reuses a freed block at once for the next allocation on the block's own stream, because it knows of no
  other stream that uses the block (`Tensor.record_stream` would tell it, within one libtorch). So
  `release` waits for the device.

The memory comes from the allocator of torch, in the interpreter that needs it first. That one packs
small storages, counts in torch.cuda.memory_allocated, frees its cache when the device is full, and
exists for ROCm. Blocks of the driver (cuMemAlloc) would need no interpreter, but 2 MiB for every bias.
"""

import gc
import sys

from _hydrozoa.lazy_names import namespace

# DLDeviceType of what torch calls cuda: NVIDIA's devices, and AMD's.
CUDA, ROCM = 2, 10


class Cuda:
    """The part of torch's CUDA backend that interpreters need. A device is named by its number."""

    def obstacle(self, index):
        """Why this interpreter cannot use a device (None is the current one); None if it can."""
        import torch

        if torch.version.cuda is None and torch.version.hip is None:
            return f"torch {torch.__version__} was built without CUDA"
        if not torch.cuda.is_available():
            return f"torch {torch.__version__} sees no CUDA device{_because(torch.cuda.init)}"
        count = torch.cuda.device_count()
        if index is not None and index >= count:
            return f"torch {torch.__version__} sees {count} CUDA device(s), numbered from 0"
        return None

    def current(self):
        """The number of the device that stands for one without a number."""
        import torch

        return torch.cuda.current_device()

    def upload(self, storage, index):
        """Copies a storage in main memory to the device, and waits until the copy is complete."""
        import torch

        device = torch.device("cuda", index)
        # By a tensor: the signature of UntypedStorage.to changes between releases.
        empty = torch.empty(0, dtype=torch.uint8, device="cpu")
        copy = empty.set_(storage).to(device).untyped_storage()
        # The copy is on this thread's current stream of that device. torch waits for copies from
        # pageable memory, but does not document that it does.
        torch.cuda.current_stream(device).synchronize()
        return copy

    def place(self, index):
        """DLPack's type and number of the device."""
        import torch

        return (ROCM if torch.version.hip else CUDA), index

    def finish(self, index):
        """Waits, without the GIL, until all work of this process on the device is done."""
        import torch

        torch.cuda.synchronize(index)

    def follow(self, index):
        """Makes this thread's stream wait for the default stream, on which the host hands tensors over.
        All interpreters have the same default stream: the null stream of the primary context."""
        import torch

        current, default = torch.cuda.current_stream(index), torch.cuda.default_stream(index)
        if current != default:
            current.wait_stream(default)


# By the name in a location such as "cuda:0". Another kind of device can be added with the methods of
# Cuda, if all interpreters see its memory at one address.
BACKENDS = {"cuda": Cuda()}


class DevicePlace:
    """A device by its backend's name and its number."""

    def __init__(self, name, index):
        self.name = name
        self.backend = BACKENDS[name]
        self._index = index

    def obstacle(self):
        return self.backend.obstacle(self._index)

    @property
    def index(self):
        """Ask only if `obstacle` names none."""
        if self._index is None:
            self._index = self.backend.current()
        return self._index

    @property
    def location(self):
        return f"{self.name}:{self.index}"

    def __str__(self):
        return self.name if self._index is None else f"{self.name}:{self._index}"

    def upload(self, storage):
        """Uploads a storage. Returns what the host needs: owner, address, size, DLPack's device."""
        copy = self.backend.upload(storage, self.index)
        return (copy, copy.data_ptr(), copy.nbytes(), *self.backend.place(self.index))


def find(location):
    """The place that a location names (`cuda`, `cuda:1`), or None if no backend has that name."""
    name, colon, index = location.partition(":")
    if name not in BACKENDS or (colon and not index.isdecimal()):
        return None
    return DevicePlace(name, int(index) if colon else None)


def destination(map_location, location):
    """The location to which torch.load's `map_location` maps `location`. None if `map_location` is a
    function, which places storages itself (torch.serialization._get_restore_location)."""
    import torch

    if map_location is None:
        return location
    if isinstance(map_location, dict):
        return str(map_location.get(location, location))
    if isinstance(map_location, bytes):
        return map_location.decode("ascii")
    # A torch.device is callable as well.
    return str(map_location) if isinstance(map_location, (str, torch.device)) else None


# For the host, which names a device as DLPack does or by its location.


def obstacle(kind, index):
    """Why this interpreter cannot use a device. None if it can, or if torch itself will raise."""
    place = _of_dlpack(kind, index)
    return None if place is None else place.obstacle()


def has_torch():
    """Whether this interpreter's program has imported torch."""
    return "torch" in sys.modules


def present(memory):
    """Main memory of the host's as this interpreter's program has tensors: a `torch.Tensor` where it
    has imported torch, an array where it has imported numpy, else `memory` itself."""
    for name in ("torch", "numpy"):
        # Another thread may be importing it.
        from_dlpack = getattr(sys.modules.get(name), "from_dlpack", None)
        if from_dlpack is not None:
            return from_dlpack(memory)
    return memory


def adopt(memory):
    """A tensor over memory of the host's. On a device, work on it begins after the work queued so far."""
    import torch

    place = _of_dlpack(*memory.__dlpack_device__())
    if place is not None:
        place.backend.follow(place.index)
    return torch.from_dlpack(memory)


def release(location):
    """Waits before memory on a device returns to the allocator of this interpreter's torch."""
    place = find(location)
    if place is not None:
        place.backend.finish(place.index)


def end():
    """Gives back what the allocator of this interpreter's own libtorch has free on devices. It would stay with the process: libtorch
    leaves its caches to the end of the process, which frees them."""
    cuda = sys.modules.get("torch.cuda")
    # Without a question to a module that is imported in part, or not yet. One with lazy imports would import all the rest.
    if cuda is None or not namespace(cuda).get("_initialized"):
        return
    gc.collect()
    sys.modules["torch"]._C._cuda_clearCublasWorkspaces()
    cuda.empty_cache()


def _of_dlpack(kind, index):
    return DevicePlace("cuda", index) if kind in (CUDA, ROCM) else None


def _because(action):
    """The first sentence of what an action raises, in brackets."""
    try:
        action()
    except Exception as error:
        return f" ({str(error).partition('. ')[0]})"
    return ""
