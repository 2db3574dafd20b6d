"""The inputs and outputs of a packaged object's call: names, kinds, types of elements and extents.

The builder of packages describes the example with it. A server takes the names of outputs from it, so that both agree.
Nothing here imports torch or numpy: a value of theirs has imported them.
"""

import inspect
import sys
from contextlib import nullcontext

# A tensor of torch, or an array of numpy.
TENSOR, ARRAY = "tensor", "array"

# The type of an array's elements that are texts or byte strings.
TEXT = "text"


def parameters(obj):
    """The names of the parameters that take positional arguments, in their order. Empty for a call without a
    signature."""
    forward = getattr(obj, "forward", None)
    call = forward if callable(forward) else obj
    schema = getattr(call, "schema", None)
    if schema is not None and hasattr(schema, "arguments"):
        # A method of TorchScript. The first argument is the object.
        return [argument.name for argument in schema.arguments[1:] if not argument.kwarg_only]
    try:
        found = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def outputs(result):
    """The outputs of a result: pairs of a name and a tensor or an array. A dict's keys, the fields of a named tuple and those
    of a dataclass are names. Else the names are OUTPUT__0 and so on. None values are left out."""
    if _kind(result) is not None:
        pairs = [("OUTPUT__0", result)]
    elif isinstance(result, dict):
        pairs = list(result.items())
    elif isinstance(result, tuple) and hasattr(result, "_fields"):
        pairs = list(zip(result._fields, result))
    elif isinstance(result, (tuple, list)):
        pairs = [(f"OUTPUT__{place}", value) for place, value in enumerate(result)]
    elif hasattr(type(result), "__dataclass_fields__"):
        pairs = [(name, getattr(result, name)) for name in type(result).__dataclass_fields__]
    else:
        raise TypeError(
            f"the result is a {type(result).__qualname__}; only tensors and arrays can be sent, and a tuple, a list, a dict or a "
            "dataclass of them: have the object return one of these"
        )
    pairs = [(name, value) for name, value in pairs if value is not None]
    for name, value in pairs:
        _check_name("output", name)
        if _kind(value) is None:
            raise TypeError(
                f"the output {name} is a {type(value).__qualname__}; only tensors and arrays can be sent: have the object return "
                "those alone"
            )
    return pairs


def call(obj, arguments):
    """Calls the object as a server does."""
    # Another thread may be importing torch.
    inference_mode = getattr(sys.modules.get("torch"), "inference_mode", nullcontext)
    with inference_mode():
        return obj(*arguments)


def describe(obj, arguments, result):
    """Rows of inputs and outputs. An input's are its place among the arguments, kind, type, extents and name, an output's the
    same without the place. Plain values among the arguments are not inputs: each call gets those of the example."""
    names = parameters(obj)
    inputs = []
    for place, value in enumerate(arguments):
        name = names[place] if place < len(names) else f"INPUT__{place}"
        if _kind(value) is not None:
            inputs.append((place, *_row(value), name))
        elif not _is_plain(value):
            raise TypeError(
                f"the argument {name} is a {type(value).__qualname__}; a request has tensors and arrays only: have the object take "
                "those as arguments of their own"
            )
    if not inputs:
        raise TypeError("no argument is a tensor or an array, so a request would have no input: have the object take one")
    return inputs, [(*_row(value), name) for name, value in outputs(result)]


def twice(arguments, places):
    """The arguments with a batch that is twice as large."""
    doubled = list(arguments)
    for place in places:
        value = doubled[place]
        doubled[place] = _module(value).concatenate([value, value])
    return tuple(doubled)


def _check_name(what, name):
    if not isinstance(name, str) or not name or not name.isprintable():
        raise TypeError(f"an {what} has the name {name!r}; names are texts without line breaks")


def _is_plain(value):
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes))


def _kind(value):
    """The value's kind: TENSOR or an array's, else None."""
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        return TENSOR
    return ARRAY if isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ())) else None


def _module(value):
    return sys.modules["torch" if _kind(value) is TENSOR else "numpy"]


def _row(value):
    kind = _kind(value)
    text = str(value.dtype).removeprefix("torch.")
    is_text = kind is ARRAY and value.dtype.kind in "OSU"
    return kind, TEXT if is_text else text, list(value.shape)
