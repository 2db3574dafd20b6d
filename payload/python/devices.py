"""Devices with memory of their own, and when it may pass from one interpreter to another.

All interpreters of a process have one address space on a CUDA device too: the driver gives a process
one primary context for each device (CUDA Driver API, "Primary Context Management"), and every CUDA
runtime uses it, whichever copy of libtorch it serves. So memory that one interpreter's torch has
allocated is read by the others at the same address. A device works through queues, though (streams),
of which interpreters and threads may have their own, and two moments need care:

- Before others may read, what was queued to fill the memory must be done. The host waits for the
  device then (`upload`, `finish`) and announces the memory afterwards, under a lock: whatever others
  queue that reads it begins later, on any stream.
- Before the memory is given back, what others have queued that reads it must be done. torch's caching
  allocator gives a freed block to the next allocation on the block's own stream at once, since it
  knows of no other stream that uses it (`Tensor.record_stream` tells it, within one libtorch). So
  `release` waits for the device.

The allocator is torch's own, in the interpreter that is first: it packs small storages, counts in
torch.cuda.memory_allocated, frees its cache when the device is full, and is there for ROCm as well.
Blocks of the driver's (cuMemAlloc) would need no interpreter, and take 2 MiB for every bias.
"""

# DLDeviceType of what torch calls cuda: NVIDIA's devices, and AMD's.
CUDA, ROCM = 2, 10


class Cuda:
    """What interpreters need of torch's CUDA backend. A device is given by its number."""

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
        """A storage on the device with the bytes of one in main memory, which have arrived."""
        import torch

        device = torch.device("cuda", index)
        # By a tensor, and not by UntypedStorage.to, whose signature changes between releases.
        empty = torch.empty(0, dtype=torch.uint8, device="cpu")
        copy = empty.set_(storage).to(device).untyped_storage()
        # The copy went through this thread's current stream of that device. From pageable memory
        # torch waits for it itself; that is no promise of its documentation.
        torch.cuda.current_stream(device).synchronize()
        return copy

    def place(self, index):
        """DLPack's type and number of the device."""
        import torch

        return (ROCM if torch.version.hip else CUDA), index

    def finish(self, index):
        """Waits, without the GIL, until all that this process has queued on the device is done."""
        import torch

        torch.cuda.synchronize(index)

    def follow(self, index):
        """Has this thread's stream wait for what is queued on the default stream, by which the host
        hands tensors over. The default stream is one for all interpreters: the null stream of the
        primary context."""
        import torch

        current, default = torch.cuda.current_stream(index), torch.cuda.default_stream(index)
        if current != default:
            current.wait_stream(default)


# By the name in front of a location such as "cuda:0". Another device whose memory all interpreters
# see at one address may be added, with the methods of Cuda.
BACKENDS = {"cuda": Cuda()}


class Place:
    """A device by its backend's name and its number."""

    def __init__(self, name, index):
        self.name = name
        self.backend = BACKENDS[name]
        self._index = index

    def obstacle(self):
        return self.backend.obstacle(self._index)

    @property
    def index(self):
        """Only where there is no obstacle."""
        if self._index is None:
            self._index = self.backend.current()
        return self._index

    @property
    def location(self):
        return f"{self.name}:{self.index}"

    def __str__(self):
        return self.name if self._index is None else f"{self.name}:{self._index}"

    def upload(self, storage):
        """As the host takes it over: owner, address, size, DLPack's device."""
        copy = self.backend.upload(storage, self.index)
        return (copy, copy.data_ptr(), copy.nbytes(), *self.backend.place(self.index))


def find(location):
    """The place that a location names (`cuda`, `cuda:1`), or None if it is none of a backend here."""
    name, colon, index = location.partition(":")
    if name not in BACKENDS or (colon and not index.isdecimal()):
        return None
    return Place(name, int(index) if colon else None)


def destination(map_location, location):
    """Where torch.load's `map_location` sends a storage of `location`; None where it is a function,
    which decides by itself (torch.serialization._get_restore_location)."""
    import torch

    if map_location is None:
        return location
    if isinstance(map_location, dict):
        return str(map_location.get(location, location))
    if isinstance(map_location, bytes):
        return map_location.decode("ascii")
    # A torch.device is callable as well.
    return str(map_location) if isinstance(map_location, (str, torch.device)) else None


# What the host calls, with a device as DLPack has it, or by its location.


def obstacle(kind, index):
    """Why this interpreter cannot use a device; None if it can, or if torch is to say so itself."""
    place = _of_dlpack(kind, index)
    return None if place is None else place.obstacle()


def adopt(memory):
    """A tensor over memory of the host's on a device, in the order of what was queued before."""
    import torch

    place = _of_dlpack(*memory.__dlpack_device__())
    if place is not None:
        place.backend.follow(place.index)
    return torch.from_dlpack(memory)


def release(location):
    """Before memory on a device is given back to the allocator of this interpreter's torch."""
    place = find(location)
    if place is not None:
        place.backend.finish(place.index)


def _of_dlpack(kind, index):
    return Place("cuda", index) if kind in (CUDA, ROCM) else None


def _because(action):
    """The first sentence of what an action raises, in brackets."""
    try:
        action()
    except Exception as error:
        return f" ({str(error).partition('. ')[0]})"
    return ""
