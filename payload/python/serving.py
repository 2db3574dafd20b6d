"""A server's work with a packaged model, for the profile of imports that its package carries.

This module imports nothing that a server would not.
"""

_outputs = []


def serve(obj, arguments):
    """Calls the object as a server does, and keeps its output for `digest`."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        _outputs.append(obj(*arguments))
    torch.manual_seed(0)
    with torch.inference_mode():
        _outputs.append(obj(*arguments))


def passed(tensor):
    """A tensor that comes in and goes out."""
    return tensor


def digest():
    """A text that outputs of equal bits have in common, in whatever interpreter."""
    import hashlib

    hasher = hashlib.sha256()
    _feed(hasher, _outputs, set())
    _outputs.clear()
    return hasher.hexdigest()


def _feed(hasher, value, above):
    import ctypes
    import pickle

    import torch

    def put(*words):
        hasher.update(repr(words).encode())

    if id(value) in above:
        put("again")
        return
    above = above | {id(value)}
    # Classes of a package have the package's number in their modules' names, and so has what pickle makes of them.
    if isinstance(value, type) or hasattr(value, "__code__"):
        put("named", value.__qualname__)
    elif isinstance(value, torch.Tensor):
        put("tensor", value.dtype, tuple(value.shape))
        plain = value.to_dense() if value.layout != torch.strided or value.is_quantized else value
        plain = plain.detach().resolve_conj().resolve_neg().contiguous().cpu()
        if plain.numel():
            hasher.update(ctypes.string_at(plain.data_ptr(), plain.nbytes))
    elif isinstance(value, dict):
        put("dict", len(value))
        for key, item in value.items():
            _feed(hasher, key, above)
            _feed(hasher, item, above)
    elif isinstance(value, (list, tuple)):
        put("sequence", type(value).__qualname__, len(value))
        for item in value:
            _feed(hasher, item, above)
    elif isinstance(value, (set, frozenset)):
        put("set", sorted(map(repr, value)))
    elif hasattr(value, "__dict__"):
        put("object", type(value).__qualname__)
        _feed(hasher, vars(value), above)
    else:
        put("value", type(value).__qualname__, pickle.dumps(value))
