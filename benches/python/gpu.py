"""A model of BERT-base's size on a GPU, as stock python processes run it.

    gpu.py probe DEVICE                            one line of JSON: what torch sees of the device
    gpu.py export DEVICE FOLDER LAYERS             writes FOLDER/encoder.pt and .expected, computed on the device
    gpu.py watch DEVICE UUID                       answers each line by the bytes in use on the device, whoever uses them
    gpu.py serve DEVICE FOLDER                     answers orders as contender.py does

DEVICE is cuda or cuda:N, or cpu to rehearse without a GPU. `Caller` is also what our interpreters run. weights.py lies beside.
"""

import contextlib
import ctypes
import json
import os
import sys
import time
import warnings

import torch

# Absolute, on outputs of tanh. Another library version or stream may add in another order.
TOLERANCE = 1e-3


class Caller:
    """One caller's request: the input goes up, the model runs, the output comes down; on a stream of its own, since what is queued
    on one stream runs in order, also for different interpreters."""

    def __init__(self, model, arguments, expected, device):
        self.model = model
        self.arguments = [argument.cpu() for argument in arguments]
        self.expected = expected
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None

    def __call__(self):
        on_stream = torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext()
        with torch.no_grad(), on_stream:
            output = self.model(*[argument.to(self.device) for argument in self.arguments])
            # Waits for the stream.
            output = output.cpu()
        return bool((output - self.expected).abs().max() <= TOLERANCE)


def expected(folder):
    with open(os.path.join(folder, "encoder.expected"), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32)


def addresses(model):
    """Where the weights are."""
    return [tensor.data_ptr() for tensor in model.state_dict().values()]


def probe(device):
    device = torch.device(device)
    found = {"torch": torch.__version__, "obstacle": None, "name": "main memory", "uuid": ""}
    if device.type == "cuda":
        try:
            torch.cuda.init()
            properties = torch.cuda.get_device_properties(device)
            found["name"] = properties.name
            found["uuid"] = str(getattr(properties, "uuid", ""))
        except (AssertionError, RuntimeError) as error:
            # The first: built without CUDA, or no such number.
            found["obstacle"] = str(error).partition(". ")[0] or type(error).__name__
    print(json.dumps(found))


def export(device, folder, layers):
    import weights

    weights.export(folder, layers=int(layers))
    importer = torch.package.PackageImporter(os.path.join(folder, "encoder.pt"))
    model = importer.load_pickle("model", "model.pkl", map_location=device)
    (words,) = importer.load_pickle("model", "example.pkl", map_location=device)
    with torch.no_grad(), open(os.path.join(folder, "encoder.expected"), "wb") as file:
        file.write(model(words).cpu().numpy().astype("<f4").tobytes())


class Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def nvml(uuid):
    """A function that asks the driver's management library, which needs no context on the device; None without it."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle, memory = ctypes.c_void_p(), Memory()
    name = (uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}").encode()
    if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)):
        return None

    def used():
        status = library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
        if status:
            raise OSError(f"nvmlDeviceGetMemoryInfo: {status}")
        return memory.used

    return used


def occupied(device):
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def watch(device, uuid):
    device = torch.device(device)
    used = lambda: 0
    if device.type == "cuda":
        # The second has a context of its own, which is there all the time and so in every difference.
        used = nvml(uuid) or (lambda: occupied(device))
    used()
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for _ in sys.stdin:
        print(used(), flush=True)


def serve(device, folder):
    importer = torch.package.PackageImporter(os.path.join(folder, "encoder.pt"))
    model = importer.load_pickle("model", "model.pkl", map_location=device)
    arguments = importer.load_pickle("model", "example.pkl", map_location="cpu")
    caller = Caller(model, arguments, expected(folder), device)
    for _ in range(3):
        caller()
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        latencies, wrong = [], 0
        begin = start = time.perf_counter()
        end = begin + json.loads(line)["seconds"]
        while start < end:
            wrong += not caller()
            now = time.perf_counter()
            latencies.append((now - start) * 1e6)
            start = now
        reply = {"latencies_us": latencies, "wrong": wrong, "seconds": start - begin, "processes": [os.getpid()]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    import torch.package

    # torch.package itself uses TypedStorage.
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    torch.set_num_threads(1)
    {"probe": probe, "export": export, "watch": watch, "serve": serve}[sys.argv[1]](*sys.argv[2:])
