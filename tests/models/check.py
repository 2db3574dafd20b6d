"""Calls a model and writes its result as bytes. The same text runs in plain python and in each interpreter, outside of the
package, so that it cannot change what the package brings."""

import collections.abc
import dataclasses

import torch

SEED = 4


def leaves(value, path=""):
    """Each tensor and each other value of a result, with where it was found."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, collections.abc.Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), f"{path}.{field.name}")
    else:
        yield path, torch.tensor(list(repr(value).encode()), dtype=torch.uint8)


def encode(value):
    """The bits of a result: of each tensor its place, type, shape and bytes."""
    parts = []
    for path, tensor in leaves(value):
        parts.append(f"{path} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().contiguous().flatten()
        parts.append(flat.view(torch.uint8).numpy().tobytes() if len(flat) else b"")
    return b"".join(parts)


def call(model, arguments):
    """One call, from the same state of torch's generator each time."""
    torch.manual_seed(SEED)
    return encode(model(*arguments))


def not_a_number(value):
    """How many elements of a result are infinite or not a number. Such elements would agree with anything."""
    return sum(int((~torch.isfinite(t)).sum()) for _, t in leaves(value) if t.is_floating_point())


def difference(expected, got):
    """Describes how two results differ: the first place, and the largest distance of all numbers."""
    worst, parts = 0.0, []
    for (path, before), (other, after) in zip(_decode(expected), _decode(got), strict=False):
        if path != other:
            return f"{path} became {other}"
        if before.dtype.is_floating_point:
            worst = max(worst, (before.double() - after.double()).abs().max().item())
        if not torch.equal(before, after):
            parts.append(path)
    return f"{', '.join(parts)}: numbers differ by at most {worst:.3g}"


def _decode(data):
    """The tensors of `encode`'s bytes, flat, by their headlines."""
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        head = bytes(data[place:end]).decode()
        kind, _, shape = head[head.index("torch.") :].partition(" ")
        dtype = getattr(torch, kind.removeprefix("torch."))
        count = 1
        for size in shape.strip("(),").split(","):
            count *= int(size) if size.strip() else 1
        start, place = end + 1, end + 1 + count * dtype.itemsize
        yield head, torch.frombuffer(bytearray(data[start:place]), dtype=dtype) if count else torch.empty(0)
