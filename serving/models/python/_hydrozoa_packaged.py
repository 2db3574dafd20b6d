"""Runs a packaged model for the server: calls it with views of requests' bytes, and returns the memory of its results."""

import contextlib
import itertools
import re
import sys

from _hydrozoa_errors import traceback_of, words_of
from _hydrozoa_memory import Shortage

# numpy's and torch's names of elements, and the protocol's.
_NAMES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "bfloat16": "BF16",
}
_ELEMENTS = {protocol: name for name, protocol in _NAMES.items()}

_PLACE = re.compile(r".*__(\d+)", re.DOTALL)

# Stands for an argument that was not given.
_MISSING = object()


class Instance:
    """One instance of a packaged model.

    `arguments` are rows of an input's name, its place among the arguments, whether it is a tensor, and whether the argument lacks the
    last extent. `results` are rows of an output's name, type and extents without the batch's. `location` is where the object is, in torch's
    words; None is where it was saved.
    """

    def __init__(self, model, host, describing, obj, example, arguments, results, has_batch, location):
        self._model, self._host, self._describing = model, host, describing
        self._object, self._example, self._has_batch = obj, example, has_batch
        self._arguments, self._results = arguments, results
        self._parameters = describing.parameters(obj)
        self._shortage = Shortage()
        # Arguments other than inputs are those of the example in each call.
        self._template = [] if example is None else list(example)
        for _, place, _, _ in arguments:
            self._template += [_MISSING] * (place + 1 - len(self._template))
            self._template[place] = _MISSING
        self._is_tensor = {name: is_tensor for name, _, is_tensor, _ in arguments}
        self._gpu = _gpu(location, obj)
        if self._gpu is not None:
            import torch

            # Work queued on one stream runs in order, also for different interpreters.
            self._stream = torch.cuda.Stream(self._gpu)
            # Another stream than that on which the object was moved.
            torch.cuda.synchronize(self._gpu)

    def warm(self):
        """Calls the object with the example. Returns the problem, if any."""
        try:
            with self._calling():
                outputs = self._outputs(self._object(*self._example))
                for (name, data_type, dims), value in zip(self._results, outputs):
                    shape = _shape(value, dims, self._has_batch)[self._has_batch :]
                    fits = len(shape) == len(dims) and all(dim in (-1, extent) for dim, extent in zip(dims, shape))
                    if not fits:
                        raise ValueError(f"the output {name} is {shape}, and the configuration has {dims}")
        except Exception as error:
            self._log(error)
            return words_of(error)
        return None

    def execute(self, received, _limited):
        """Runs requests. Returns an answer for each, or a text if all have failed, which says why. At a limit the server interrupts
        it; nothing here is left to do then."""
        try:
            wanted = [request[6] for request in received]
            inputs = [request[7] for request in received]
            received.clear()
            with self._calling():
                return self._answers(inputs, wanted)
        except Exception as error:
            self._shortage.note(error)
            self._log(error)
            return f"Failed to process the request(s) for model '{self._model}', message: {words_of(error)}"

    def is_exhausted(self):
        """Whether a want of memory stays, behind a MemoryError."""
        return self._shortage.stays()

    def finalize(self):
        """Lets go of the object."""
        self.__dict__.clear()

    def _log(self, error):
        self._host.failed(words_of(error), traceback_of(error))

    @contextlib.contextmanager
    def _calling(self):
        """Without gradients, and on the instance's GPU."""
        torch = _torch()
        with contextlib.ExitStack() as stack:
            if torch is not None:
                stack.enter_context(torch.no_grad())
            if self._gpu is not None:
                stack.enter_context(torch.cuda.stream(self._stream))
            yield

    def _answers(self, inputs, wanted):
        sizes = [tensors[0][2][0] if self._has_batch and tensors else 1 for tensors in inputs]
        given = [{tensor[0]: self._received(*tensor) for tensor in tensors} for tensors in inputs]
        inputs.clear()
        joined = given[0] if len(given) == 1 else _joined(given)
        given.clear()
        if self._gpu is not None:
            joined = {name: value.to(self._gpu) if _is_tensor(value) else value for name, value in joined.items()}
        call = self._call(joined)
        joined.clear()
        result = self._object(*call[0], **call[1])
        call = None
        outputs = self._outputs(result)
        result = None
        answers = [((), {}, []) for _ in wanted]
        for place, (name, data_type, dims) in enumerate(self._results):
            if not any(name in names for names in wanted):
                continue
            value = _own(outputs, place)
            value = value.reshape(_shape(value, dims, self._has_batch))
            if self._has_batch and value.shape[0] != sum(sizes):
                raise ValueError(
                    f"the output {name} is {list(value.shape)} for a batch of {sum(sizes)}; its first extent must be that of the batch"
                )
            start = 0
            for answer, names, size in zip(answers, wanted, sizes):
                part = value if len(sizes) == 1 else value[start : start + size]
                start += size
                if name in names:
                    answer[2].append((name, data_type, list(part.shape), _memory(part, data_type)))
        return [(None, parameters, tensors) for _, parameters, tensors in answers]

    def _received(self, name, data_type, shape, memory):
        """A view of a request's bytes."""
        view = _tensor if self._is_tensor[name] else _array
        return view(data_type, shape, memory)

    def _call(self, values):
        """The arguments of a call: by their places, and by their names behind one that is left out."""
        places = list(self._template)
        for name, place, _, is_flat in self._arguments:
            if name in values:
                value = values[name]
                places[place] = value.reshape(value.shape[:-1]) if is_flat else value
        positional, named = [], {}
        for place, value in enumerate(places):
            if value is _MISSING:
                continue
            if len(positional) == place:
                positional.append(value)
            elif place < len(self._parameters):
                named[self._parameters[place]] = value
            else:
                raise TypeError(f"the argument at {place} has no name, and one before it is left out")
        return positional, named

    def _outputs(self, result):
        """The values of a result, in the order of the configuration."""
        found = self._describing.outputs(result)
        names = dict(found)
        values = []
        for name, data_type, _ in self._results:
            value = names.get(name)
            place = _PLACE.fullmatch(name)
            if value is None and place is not None and int(place[1]) < len(found):
                value = found[int(place[1])][1]
            if value is None:
                returned = ", ".join(names)
                raise ValueError(f"the call has returned no {name}; it has returned {returned}")
            type_of_value = _type_of(value)
            if type_of_value != data_type:
                raise TypeError(f"the output {name} is {type_of_value}, and the configuration has {data_type}")
            values.append(value)
        return values


def _torch():
    return sys.modules.get("torch")


def _gpu(location, obj):
    """The GPU of an object. None if it is in main memory."""
    if location is None:
        torch = _torch()
        if torch is None or not isinstance(obj, torch.nn.Module):
            return None
        tensors = itertools.chain(obj.parameters(), obj.buffers())
        device = next((tensor.device for tensor in tensors), None)
    elif location == "cpu":
        return None
    else:
        import torch

        device = torch.device(location)
    return device if device is not None and device.type == "cuda" else None


def _tensor(data_type, shape, memory):
    import torch

    if data_type == "BF16":
        return torch.from_dlpack(memory).reshape(shape)
    elements = getattr(torch, _ELEMENTS[data_type])
    if 0 in shape:
        return torch.empty(shape, dtype=elements)
    return torch.frombuffer(memory, dtype=elements).reshape(shape)


def _array(data_type, shape, memory):
    import numpy as np

    if data_type == "BYTES":
        from _hydrozoa_tensors import deserialize_bytes_tensor

        return deserialize_bytes_tensor(memory).reshape(shape)
    if data_type == "BF16":
        raise TypeError("arrays of numpy have no elements of BF16; have the package take a tensor")
    return np.frombuffer(memory, dtype=_ELEMENTS[data_type]).reshape(shape)


def _is_tensor(value):
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor)


def _type_of(value):
    if not _is_tensor(value) and value.dtype.kind in "OSU":
        return "BYTES"
    name = str(value.dtype).removeprefix("torch.")
    return _NAMES.get(name, name)


def _shape(value, dims, has_batch):
    """The extents of the sent tensor: those of the value, and one of 1 where only the batch's is left."""
    shape = list(value.shape)
    return [*shape, 1] if len(shape) == has_batch and list(dims) == [1] else shape


def _joined(given):
    """The inputs of several requests as those of one."""
    joined = {}
    for name, value in given[0].items():
        module = sys.modules["torch" if _is_tensor(value) else "numpy"]
        joined[name] = module.concatenate([values[name] for values in given])
    return joined


def _own(values, place):
    """A value as one of contiguous memory that nobody writes any more: its own if nobody else refers to it, else a copy."""
    value = values[place]
    if not _is_tensor(value):
        import numpy as np

        is_alone = value.flags.owndata and _references(values, place) == _alone_array()
        del value
        array = values[place]
        return np.ascontiguousarray(array) if is_alone else array.copy(order="C")
    torch = _torch()
    is_here = value.device.type == "cpu"
    is_plain = value.layout is torch.strided and not value.is_quantized and is_here
    is_alone = is_plain and _alone_tensor() is not None and _counts(values, place) == _alone_tensor()
    if value.is_quantized:
        value = value.dequantize()
    elif value.layout is not torch.strided:
        value = value.to_dense()
    value = value.detach().cpu().resolve_conj().resolve_neg()
    return value.contiguous() if is_alone or not is_here else value.clone(memory_format=torch.contiguous_format)


def _memory(part, data_type):
    if data_type != "BYTES":
        return part
    from _hydrozoa_tensors import serialize_byte_tensor

    return serialize_byte_tensor(part) or b""


# The reference counts of an object, of the tensor behind it and of its storage are constant while nobody else refers to them, since
# the same steps ask every time.


def _references(values, place):
    return sys.getrefcount(values[place])


def _counts(values, place):
    torch, tensor = _torch(), values[place]
    try:
        return (
            sys.getrefcount(tensor),
            tensor._use_count(),
            torch._C._storage_Use_Count(tensor.untyped_storage()._cdata),
        )
    except AttributeError:
        # A release of torch that does not tell.
        return None


_known = {}


def _alone_array():
    if "array" not in _known:
        import numpy as np

        _known["array"] = _references([np.zeros(1)], 0) + 1
    return _known["array"]


def _alone_tensor():
    if "tensor" not in _known:
        counts = _counts([_torch().zeros(1)], 0)
        # `_own` has one more reference than this.
        _known["tensor"] = counts and (counts[0] + 1, *counts[1:])
    return _known["tensor"]
