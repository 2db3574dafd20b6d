"""Two models on a GPU, as stock python processes run them: an encoder of BERT-base's size, and a step of a decoder.

    gpu.py probe DEVICE                            one line of JSON: what torch sees of the device
    gpu.py export DEVICE FOLDER LAYERS             writes the models' packages and expected outputs to FOLDER, computed on the device
    gpu.py watch DEVICE UUID                       answers the order `read` by the bytes in use on the device, whoever uses them
    gpu.py serve DEVICE FOLDER MODEL               answers the order `call`

DEVICE is cuda or cuda:N, or cpu to rehearse without a GPU. MODEL is encoder or decoder. `caller` is also what our interpreters run.
contender.py, orders.py and weights.py lie beside.
"""

import contextlib
import ctypes
import json
import os
import sys
import warnings

import torch

# Another stream or library version may add in another order. The first is absolute, on outputs of tanh; the second is of
# the expected sum.
TOLERANCE = {"encoder": 1e-3, "decoder": 1e-2}


class Encoder:
    """A model of a package. The input goes up, the model runs, the output comes down."""

    def __init__(self, model, example, expected, device):
        self.model = model
        self.arguments = [argument.cpu() for argument in example]
        self.expected = expected
        self.device = device

    def __call__(self):
        output = self.model(*[argument.to(self.device) for argument in self.arguments])
        # Waits for the stream.
        return (output.cpu() - self.expected).abs().max() <= TOLERANCE["encoder"]


class Decoder:
    """One step of a decoder in float16: layers of width 768 with 12 heads, one sequence, keys and values of 128 steps before.
    Its weights are this caller's own. Each step launches some 16 kernels a layer, so it takes as long as launching them."""

    WIDTH, HEADS, BEFORE = 768, 12, 128

    def __init__(self, layers, expected, device):
        source = torch.Generator().manual_seed(7)

        def weight(*shape):
            scaled = torch.randn(shape, generator=source) * shape[-1] ** -0.5
            return scaled.to(device, torch.float16 if device.type == "cuda" else torch.float32)

        width, heads = self.WIDTH, self.HEADS
        self.layers = [
            {
                "ask": weight(3 * width, width),
                "out": weight(width, width),
                "up": weight(4 * width, width),
                "down": weight(width, 4 * width),
                "keys": weight(1, heads, self.BEFORE, width // heads),
                "values": weight(1, heads, self.BEFORE, width // heads),
            }
            for _ in range(layers)
        ]
        self.input = weight(1, 1, width)
        self.expected = expected

    def step(self):
        functional = torch.nn.functional
        width, heads = self.WIDTH, self.HEADS
        hidden = self.input
        for layer in self.layers:
            asked = functional.linear(functional.layer_norm(hidden, (width,)), layer["ask"])
            query, key, value = asked.view(1, 1, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            keys = torch.cat([layer["keys"], key], 2)
            values = torch.cat([layer["values"], value], 2)
            scores = (query @ keys.transpose(2, 3)) * (width // heads) ** -0.5
            found = (scores.softmax(-1) @ values).transpose(1, 2).reshape(1, 1, width)
            hidden = hidden + functional.linear(found, layer["out"])
            wide = functional.gelu(functional.linear(functional.layer_norm(hidden, (width,)), layer["up"]))
            hidden = hidden + functional.linear(wide, layer["down"])
        return hidden.float().square().sum().item()

    def __call__(self):
        found = self.step()
        return self.expected is None or abs(found - self.expected) <= TOLERANCE["decoder"] * abs(self.expected)


class OnStream:
    """A caller on a stream of its own, since work queued on one stream runs in order, also for different interpreters."""

    def __init__(self, caller, device):
        self.caller = caller
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self):
        on_stream = torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext()
        with torch.no_grad(), on_stream:
            return bool(self.caller())

    # As contender.py has models.
    expected = (True,)

    def call(self, _):
        return self()


def caller(name, folder, device, model=None, example=None):
    """The encoder's model and input are those of its package, wherever they were loaded."""
    device = torch.device(device)
    if name == "encoder":
        return OnStream(Encoder(model, example, expected(folder), device), device)
    with open(os.path.join(folder, "decoder.json")) as file:
        told = json.load(file)
    return OnStream(Decoder(told["layers"], told["expected"], device), device)


def expected(folder):
    with open(os.path.join(folder, "encoder.expected"), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32)


def note_memory(folder, device, number):
    """Leaves what this torch's tensors take on the device, and what its allocator has taken from it."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        found = {"tensors": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()}
        with open(os.path.join(folder, f"memory-{os.getpid()}-{number}.json"), "w") as file:
            json.dump(found, file)


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
    with torch.no_grad():
        with open(os.path.join(folder, "encoder.expected"), "wb") as file:
            file.write(model(words).cpu().numpy().astype("<f4").tobytes())
        step = Decoder(int(layers), None, torch.device(device)).step()
        with open(os.path.join(folder, "decoder.json"), "w") as file:
            json.dump({"layers": int(layers), "expected": step}, file)


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
    from orders import answer_orders, ready

    device = torch.device(device)
    used = lambda: 0
    if device.type == "cuda":
        # The second has a context of its own, which is there all the time and so in every difference.
        used = nvml(uuid) or (lambda: occupied(device))
    used()
    ready()
    answer_orders(read=lambda: {"reading": used()})


def serve(device, folder, name):
    from contender import answer

    model = example = None
    if name == "encoder":
        importer = torch.package.PackageImporter(os.path.join(folder, "encoder.pt"))
        model = importer.load_pickle("model", "model.pkl", map_location=device)
        example = importer.load_pickle("model", "example.pkl", map_location="cpu")
    call = caller(name, folder, device, model, example)
    for _ in range(10):
        call()
    note_memory(folder, device, 0)
    answer({"": call})


if __name__ == "__main__":
    import torch.package

    # torch.package itself uses TypedStorage.
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    torch.set_num_threads(1)
    {"probe": probe, "export": export, "watch": watch, "serve": serve}[sys.argv[1]](*sys.argv[2:])
