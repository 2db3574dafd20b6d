"""A torch program, area by area, with bit-exact expectations.

    torch_areas.py --record FILE    plain python: writes the digests of every result
    torch_areas.py --expect FILE    a copy: every result must have the recorded digest

Run in several interpreters of one process at once, it shows that each behaves as plain python does. Results that must differ between copies depend on HYDROZOA_COPY and are asserted
here, not recorded.
"""

import argparse
import gc
import hashlib
import io
import json
import os
import sys
import tempfile
import threading
import traceback
import weakref

import numpy as np
import torch
import torchvision
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

COPY = int(os.environ.get("HYDROZOA_COPY", "0"))
"""The copy in which this runs; 0 in plain python."""


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed):
    return torch.randn(*shape, generator=generator(seed))


def seeded(model, seed):
    """Overwrites every parameter from an explicit generator: constructors draw from the process-wide one."""
    source = generator(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            fan = max(parameter.numel() // parameter.shape[0], 1) if parameter.dim() > 1 else 1
            parameter.copy_(torch.randn(parameter.shape, generator=source) * (fan**-0.5))
    return model


def digest(value):
    """SHA-256 over dtype, shape and bytes of a tensor, or over the JSON of anything else."""
    if isinstance(value, torch.Tensor):
        array = value.detach().contiguous().numpy()
        head = f"{value.dtype}{tuple(value.shape)}".encode()
        return hashlib.sha256(head + array.tobytes()).hexdigest()
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def small_network(seed):
    return seeded(
        torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(4),
            torch.nn.Flatten(),
            torch.nn.Linear(128, 10),
        ),
        seed,
    ).eval()


# --- models and vision operators --------------------------------------------------------------------------------------


def area_models(results):
    image = randn(1, 3, 224, 224, seed=1)
    for name, seed in (("resnet18", 2), ("mobilenet_v3_small", 3)):
        model = seeded(getattr(torchvision.models, name)(weights=None), seed).eval()
        with torch.inference_mode():
            outputs = [model(image) for _ in range(3)]
        assert all(torch.equal(outputs[0], other) for other in outputs), "a repeated call gave another result"
        results[name] = outputs[0]


def area_vision_operators(results):
    corners = torch.rand(300, 2, generator=generator(4)) * 90
    sizes = torch.rand(300, 2, generator=generator(5)) * 30 + 1
    boxes = torch.cat([corners, corners + sizes], dim=1)
    scores = torch.rand(300, generator=generator(6))
    kept = torchvision.ops.nms(boxes, scores, 0.4)
    results["nms"] = kept
    features = randn(1, 16, 32, 32, seed=7)
    rois = torch.cat([torch.zeros(300, 1), boxes], dim=1)[kept][:20]
    results["roi_align"] = torchvision.ops.roi_align(features, rois, output_size=(7, 7), spatial_scale=0.25)
    features.requires_grad_(True)
    torchvision.ops.roi_align(features, rois, output_size=(7, 7), spatial_scale=0.25).sum().backward()
    results["roi_align_gradient"] = features.grad


# --- autograd ---------------------------------------------------------------------------------------------------------


class CopyScaledGradient(torch.autograd.Function):
    """Forward x * x; the gradient is the true one, computed by this interpreter's Python."""

    calls = 0

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context, gradient):
        CopyScaledGradient.calls += 1
        (x,) = context.saved_tensors
        return 2 * x * gradient


def area_training(results):
    model = small_network(8).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    before = CopyScaledGradient.calls
    losses = []
    for step in range(5):
        optimizer.zero_grad()
        outputs = CopyScaledGradient.apply(model(randn(4, 3, 16, 16, seed=100 + step)))
        loss = torch.nn.functional.cross_entropy(outputs, torch.tensor([0, 3, 5, 9]))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    assert CopyScaledGradient.calls == before + 5, "the backward of this interpreter did not run"
    results["losses"] = torch.stack(losses)
    for name, parameter in model.named_parameters():
        results[f"trained {name}"] = parameter


def area_hooks(results):
    seen = []
    x = randn(8, seed=9).requires_grad_(True)
    x.register_hook(lambda gradient: seen.append("tensor") or gradient * 2)

    def pack(tensor):
        seen.append("pack")
        return tensor

    def unpack(tensor):
        seen.append("unpack")
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).sum()
    y.backward()
    assert seen == ["pack", "pack", "unpack", "unpack", "tensor"], seen
    results["hooked gradient"] = x.grad
    z = randn(8, seed=10).requires_grad_(True)
    torch.utils.checkpoint.checkpoint(lambda v: torch.tanh(v) * v, z, use_reentrant=False).sum().backward()
    results["checkpoint gradient"] = z.grad


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise LookupError(f"refused by copy {COPY}")


def area_exceptions(results):
    x = torch.ones(3, requires_grad=True)
    try:
        Refuses.apply(x).sum().backward()
    except LookupError as error:
        assert str(error) == f"refused by copy {COPY}", error
    else:
        raise AssertionError("the exception did not cross backward")
    for call, kind in (
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), RuntimeError),
        (lambda: torch.ones(2)[5], IndexError),
        (lambda: torch.ones(2).to("no such device"), RuntimeError),
        (lambda: torch.ops.aten.no_such_operator, AttributeError),
    ):
        try:
            call()
        except kind:
            continue
        raise AssertionError(f"{kind.__name__} expected")
    results["exceptions"] = 5


def area_functional(results):
    def loss(weight, x):
        return torch.tanh(x @ weight).sum()

    weight, batch = randn(4, seed=11), randn(6, 4, seed=12)
    results["vmap of grad"] = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, batch)
    results["jacobian"] = torch.func.jacrev(torch.tanh)(weight)


# --- operators written in Python --------------------------------------------------------------------------------------

RAN_HERE = []
"""Calls of this interpreter's Python kernels: another interpreter's run does not show here."""


@torch.library.custom_op("hydrozoa_areas::scale_by_copy", mutates_args=())
def scale_by_copy(x: torch.Tensor) -> torch.Tensor:
    RAN_HERE.append("kernel")
    return x * (COPY + 1)


@scale_by_copy.register_fake
def _(x):
    RAN_HERE.append("fake")
    return torch.empty_like(x)


def _scale_backward(context, gradient):
    RAN_HERE.append("backward")
    return gradient * (COPY + 1)


scale_by_copy.register_autograd(_scale_backward)

LIBRARY = torch.library.Library("hydrozoa_areas_library", "DEF")
LIBRARY.define("add_copy(Tensor x) -> Tensor")
LIBRARY.impl("add_copy", lambda x: x + COPY, "CompositeExplicitAutograd")
LIBRARY.impl("add_copy", lambda x: torch.empty_like(x), "Meta")


def area_python_operators(results):
    x = randn(16, seed=13)
    for _ in range(200):
        RAN_HERE.clear()
        assert torch.equal(scale_by_copy(x), x * (COPY + 1)), "another interpreter's kernel ran"
        assert torch.equal(torch.ops.hydrozoa_areas.scale_by_copy(x), x * (COPY + 1))
        assert torch.equal(torch.ops.hydrozoa_areas_library.add_copy(x), x + COPY), "another interpreter's kernel ran"
        leaf = x.clone().requires_grad_(True)
        scale_by_copy(leaf).sum().backward()
        assert torch.equal(leaf.grad, torch.full_like(x, COPY + 1)), "another interpreter's backward ran"
        assert RAN_HERE.count("kernel") == 3 and RAN_HERE.count("backward") == 1, RAN_HERE
    RAN_HERE.clear()
    with FakeTensorMode():
        fake = torch.ops.hydrozoa_areas.scale_by_copy(torch.empty(5, 7))
    assert RAN_HERE == ["fake"] and tuple(fake.shape) == (5, 7), (RAN_HERE, fake.shape)
    meta = torch.ops.hydrozoa_areas_library.add_copy(torch.empty(3, device="meta"))
    assert meta.device.type == "meta" and tuple(meta.shape) == (3,)
    results["python operators"] = 200


# --- modes and subclasses ---------------------------------------------------------------------------------------------


def area_fake_tensors(results):
    with FakeTensorMode() as mode:
        model = torchvision.models.resnet18(weights=None).eval()
        output = model(torch.empty(2, 3, 224, 224))
        assert isinstance(output, FakeTensor) and output.fake_mode is mode
    results["fake shape"] = list(output.shape)
    a, b = torch.empty(3, 1, device="meta"), torch.empty(1, 4, device="meta")
    results["meta shapes"] = [list((a + b).shape), list(torch.linalg.svd(torch.empty(5, 3, device="meta"))[1].shape)]


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operators.append(str(function))
        return function(*args, **(kwargs or {}))


def area_dispatch_mode(results):
    model = small_network(14)
    with Recorder() as recorder:
        output = model(randn(1, 3, 16, 16, seed=15))
    results["dispatched operators"] = recorder.operators
    results["dispatched output"] = output


class Wrapped(torch.Tensor):
    """A wrapper subclass: every operator on it passes through this interpreter's Python."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        unwrap = lambda value: value.inner if isinstance(value, Wrapped) else value
        return cls(function(*map(unwrap, args), **(kwargs or {})))


def area_subclasses(results):
    wrapped = Wrapped(randn(4, seed=16))
    total = torch.sin(wrapped) + wrapped
    assert type(total) is Wrapped
    results["wrapped"] = total.inner


# --- TorchScript, files, exchange -------------------------------------------------------------------------------------


def area_trace(results):
    model, image = small_network(17), randn(1, 3, 16, 16, seed=18)
    traced = torch.jit.trace(model, image)
    other = randn(1, 3, 16, 16, seed=19)
    with torch.inference_mode():
        for _ in range(4):
            assert torch.equal(traced(other), model(other)), "the trace differs from the module"
    results["traced"] = traced(other)
    results["graph inputs"] = len(list(traced.graph.inputs()))
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    buffer.seek(0)
    assert torch.equal(torch.jit.load(buffer)(other), traced(other))


def area_save_load(results):
    model, image = small_network(20), randn(1, 3, 16, 16, seed=21)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.pt")
        torch.save(model.state_dict(), path)
        for options in ({"weights_only": True}, {"weights_only": False}, {"weights_only": True, "mmap": True}):
            loaded = small_network(22)
            loaded.load_state_dict(torch.load(path, **options))
            assert torch.equal(loaded(image), model(image)), options
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    results["loaded"] = torch.load(buffer, weights_only=False)(image)


def area_exchange(results):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    tensor = torch.from_numpy(array)
    assert tensor.data_ptr() == array.ctypes.data
    array[0, 0] = 41
    assert tensor[0, 0].item() == 41
    by_dlpack = torch.from_dlpack(array)
    assert by_dlpack.data_ptr() == array.ctypes.data
    source = randn(5, 5, seed=23)
    back = np.from_dlpack(source)
    assert back.ctypes.data == source.data_ptr()
    capsule = torch.utils.dlpack.to_dlpack(source)
    again = torch.utils.dlpack.from_dlpack(capsule)
    assert again.data_ptr() == source.data_ptr() and again is not source
    del source, capsule
    gc.collect()
    results["exchanged"] = again
    results["strided"] = torch.from_numpy(np.ascontiguousarray(array[::2, ::3].T))
    results["numpy"] = float(np.linalg.norm(array @ array.T))


def area_preservation(results):
    """A tensor's Python object outlives its last Python reference while C++ holds the tensor."""
    holder = torch.nn.Parameter(torch.ones(2))
    holder.grad = torch.zeros(2)
    holder.grad.mark = "kept"
    identity = id(holder.grad)
    gc.collect()
    assert holder.grad.mark == "kept" and id(holder.grad) == identity
    gone = weakref.ref(holder.grad)
    holder.grad = None
    gc.collect()
    assert gone() is None, "the gradient was not freed"
    results["preservation"] = "kept"


def area_threads(results):
    model, failures = small_network(24), []
    image = randn(2, 3, 16, 16, seed=25)
    expected = model(image).detach()

    def work(index):
        try:
            for round_ in range(10):
                with torch.inference_mode():
                    assert torch.equal(model(image), expected), "forward in a thread"
                x = torch.full((4,), float(index), requires_grad=True)
                CopyScaledGradient.apply(x).sum().backward()
                assert torch.equal(x.grad, torch.full((4,), 2.0 * index)), "backward in a thread"
                assert torch.equal(scale_by_copy(image), image * (COPY + 1)), "python operator in a thread"
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    results["threads"] = expected


def main():
    parser = argparse.ArgumentParser()
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--record")
    mode.add_argument("--expect")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results, failed = {}, []
    areas = [(name, area) for name, area in globals().items() if name.startswith("area_")]
    for name, area in areas:
        try:
            area(results)
        except BaseException:
            failed.append(name)
            print(f"copy {COPY}: {name} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    digests = {key: digest(value) for key, value in results.items()}
    if arguments.record:
        with open(arguments.record, "w") as file:
            json.dump(digests, file, indent=1)
    else:
        with open(arguments.expect) as file:
            expected = json.load(file)
        for key in expected.keys() | digests.keys():
            if expected.get(key) != digests.get(key):
                failed.append(key)
                print(f"copy {COPY}: {key}: not the bits that plain python gives", file=sys.stderr, flush=True)
    # One write, so that the lines of copies do not mix.
    sys.stdout.write(f"copy {COPY}: {len(areas)} areas, {len(digests)} results, {len(failed)} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
