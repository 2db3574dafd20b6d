"""Tensors of requests and responses, and their bytes."""

import struct
import sys

import numpy as np

import _hydrozoa_errors as errors

BOOL, STRING, BF16 = 1, 13, 14

# The protocol's name, the configuration's, the number that both Triton and numpy_to_triton_type use, numpy's type.
_TYPES = (
    ("BOOL", "TYPE_BOOL", BOOL, np.bool_),
    ("UINT8", "TYPE_UINT8", 2, np.uint8),
    ("UINT16", "TYPE_UINT16", 3, np.uint16),
    ("UINT32", "TYPE_UINT32", 4, np.uint32),
    ("UINT64", "TYPE_UINT64", 5, np.uint64),
    ("INT8", "TYPE_INT8", 6, np.int8),
    ("INT16", "TYPE_INT16", 7, np.int16),
    ("INT32", "TYPE_INT32", 8, np.int32),
    ("INT64", "TYPE_INT64", 9, np.int64),
    ("FP16", "TYPE_FP16", 10, np.float16),
    ("FP32", "TYPE_FP32", 11, np.float32),
    ("FP64", "TYPE_FP64", 12, np.float64),
    ("BYTES", "TYPE_STRING", STRING, np.object_),
)
_NUMPY_OF_NUMBER = {number: numpy_type for _, _, number, numpy_type in _TYPES}
_NUMBER_OF_NUMPY = {np.dtype(numpy_type): number for _, _, number, numpy_type in _TYPES}
_NUMPY_OF_CONFIG = {config: numpy_type for _, config, _, numpy_type in _TYPES}
_NUMPY_OF_CONFIG["TYPE_BOOL"] = bool
_NUMBER_OF_NAME = {name: number for name, _, number, _ in _TYPES} | {"BF16": BF16}
_NAME_OF_NUMBER = {number: name for name, number in _NUMBER_OF_NAME.items()}

# DLPack's kinds of elements (dlpack.h).
_DL_CPU = (1, 3)  # kDLCPU, kDLCUDAHost


def triton_to_numpy_type(data_type):
    """numpy's type for the number of a type; None if numpy lacks it."""
    return _NUMPY_OF_NUMBER.get(int(data_type))


def numpy_to_triton_type(data_type):
    """The number of numpy's type; None if it has no number."""
    data_type = np.dtype(data_type)
    if data_type.kind in "SU":
        return STRING if data_type.kind == "S" else None
    return _NUMBER_OF_NUMPY.get(data_type)


def triton_string_to_numpy(triton_type_string):
    """numpy's type for a name such as TYPE_FP32."""
    return _NUMPY_OF_CONFIG[triton_type_string]


def serialize_byte_tensor(input_tensor):
    """The elements of an array of byte strings or objects, row by row. Each has its length in front, four bytes, little
    endian. Texts are encoded as UTF-8. An empty array gives (), one of another type None."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.kind != "S":
        return None
    parts = []
    for element in input_tensor.ravel(order="C").tolist():
        data = element if isinstance(element, bytes) else str(element).encode("utf-8")
        parts.append(struct.pack("<I", len(data)))
        parts.append(data)
    return b"".join(parts)


def deserialize_bytes_tensor(encoded_tensor):
    """The elements that serialize_byte_tensor has written, as an array of bytes objects."""
    elements = []
    offset, end = 0, len(encoded_tensor)
    while offset < end:
        if end - offset < 4:
            raise errors.TritonModelException("Invalid bytes tensor data: incomplete length field")
        (length,) = struct.unpack_from("<I", encoded_tensor, offset)
        offset += 4
        if end - offset < length:
            raise errors.TritonModelException("Invalid bytes tensor data: string extends beyond buffer")
        elements.append(bytes(encoded_tensor[offset : offset + length]))
        offset += length
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array


class Tensor:
    """A named tensor, over an array of numpy or over another library's tensor by DLPack."""

    # `_is_taken`: the server reads the array's memory, maybe for longer than this tensor lives.
    __slots__ = ("_name", "_array", "_foreign", "_number", "_shape", "_memory", "_is_taken")

    def __init__(self, name, array):
        errors.check_kind(array, np.ndarray, "a tensor's array")
        _check_name(name)
        number = numpy_to_triton_type(array.dtype)
        if number is None:
            raise errors.TritonModelException("NumPy dtype is not supported.")
        self._name, self._number, self._shape = name, number, array.shape
        self._array = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        self._foreign = self._memory = None
        self._is_taken = False

    @classmethod
    def _received(cls, name, data_type, shape, memory):
        """A tensor that the server brings: a view of its bytes. For BF16, which numpy lacks, an object with
        __dlpack__."""
        tensor = cls.__new__(cls)
        tensor._name, tensor._number, tensor._shape = name, _NUMBER_OF_NAME[data_type], tuple(shape)
        tensor._is_taken = False
        is_foreign = tensor._number == BF16
        tensor._array, tensor._foreign, tensor._memory = None, memory if is_foreign else None, None if is_foreign else memory
        return tensor

    @staticmethod
    def from_dlpack(name, tensor):
        """A tensor over the memory of another library's, or of a DLPack capsule."""
        _check_name(name)
        made = Tensor.__new__(Tensor)
        made._name, made._memory, made._is_taken = name, None, False
        made._array, made._foreign, made._number, made._shape = _of_foreign(tensor)
        return made

    def name(self):
        return self._name

    def shape(self):
        return list(self._shape)

    def triton_dtype(self):
        return self._number

    def is_cpu(self):
        return self._foreign is None or self._foreign.__dlpack_device__()[0] in _DL_CPU

    def as_numpy(self):
        if self._array is None:
            if self._number == BF16:
                raise errors.TritonModelException(
                    "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
                )
            if not self.is_cpu():
                raise errors.TritonModelException("Tensor is stored in GPU and cannot be converted to NumPy.")
            self._array = self._as_array()
        elif self._is_taken:
            self._array, self._is_taken = self._array.copy(), False
        return self._array

    def _as_array(self):
        if self._memory is None:
            return np.from_dlpack(self._foreign)
        if self._number == STRING:
            return deserialize_bytes_tensor(self._memory).reshape(self._shape)
        return np.frombuffer(self._memory, dtype=_NUMPY_OF_NUMBER[self._number]).reshape(self._shape)

    def to_dlpack(self):
        return self.__dlpack__()

    def __dlpack__(self, *, stream=None):
        if self._foreign is not None:
            return self._foreign.__dlpack__() if stream is None else self._foreign.__dlpack__(stream=stream)
        if self._number == STRING:
            raise errors.TritonModelException("DLPack does not have support for string tensors.")
        return self.as_numpy().__dlpack__()

    def __dlpack_device__(self):
        return (1, 0) if self._foreign is None else self._foreign.__dlpack_device__()

    def _sent(self):
        """The output for the server: name, type, extents and memory that nobody writes from now on: the array's own if nobody
        else refers to it, else a copy."""
        name, data_type = self._name, _NAME_OF_NUMBER[self._number]
        if self._number == STRING:
            data = serialize_byte_tensor(self.as_numpy())
            return name, data_type, self._shape, data if data else b""
        if self._array is None and self._memory is None:
            return name, data_type, self._shape, _on_processor(self._foreign)
        if self._array is None:
            self._array = self._as_array()
        if self._is_taken or _is_alone(self):
            self._is_taken = True
            return name, data_type, self._shape, self._array
        return name, data_type, self._shape, self._array.tobytes()


def _check_name(name):
    errors.check_kind(name, str, "a tensor's name")
    if not name:
        raise errors.TritonModelException("Tensor name cannot be an empty string.")


class _Capsule:
    """A capsule of DLPack behaves like a tensor that can be taken once."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)


def _of_foreign(tensor):
    if not hasattr(tensor, "__dlpack__"):
        if type(tensor).__name__ != "PyCapsule":
            raise errors.TritonModelException(
                "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and "
                "`__dlpack_device__` attributes"
            )
        return _of_capsule(tensor)
    name = str(getattr(tensor, "dtype", ""))
    if name.endswith("bfloat16"):
        if not _is_contiguous(tensor):
            tensor = _refuse_gaps()
        return None, tensor, BF16, tuple(tensor.shape)
    if isinstance(tensor, Tensor):
        return tensor._array, tensor if tensor._array is None else None, tensor._number, tensor._shape
    if tensor.__dlpack_device__()[0] not in _DL_CPU:
        return None, tensor, _number_of_name(name), tuple(tensor.shape)
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    return _of_array(np.from_dlpack(tensor))


def _of_capsule(capsule):
    try:
        array = np.from_dlpack(_Capsule(capsule))
    except (BufferError, RuntimeError):
        # Elements or a device that numpy lacks. The capsule is still whole, and is torch's most probably.
        torch = sys.modules.get("torch")
        if torch is None:
            raise
        return _of_foreign(torch.utils.dlpack.from_dlpack(capsule))
    return _of_array(array)


def _of_array(array):
    if not array.flags.c_contiguous:
        _refuse_gaps()
    number = numpy_to_triton_type(array.dtype)
    if number is None:
        raise errors.TritonModelException("NumPy dtype is not supported.")
    return array, None, number, array.shape


def _refuse_gaps():
    raise errors.TritonModelException(
        "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported."
    )


def _is_contiguous(tensor):
    return not hasattr(tensor, "is_contiguous") or tensor.is_contiguous()


def _number_of_name(name):
    try:
        return _NUMBER_OF_NUMPY[np.dtype(name.rpartition(".")[2])]
    except (KeyError, TypeError):
        raise errors.TritonModelException(f"elements of {name} cannot be sent") from None


def _on_processor(foreign):
    """A tensor of a device, or of elements that numpy lacks, as an object whose memory the server can take: a copy,
    which nobody else can write."""
    if foreign.__dlpack_device__()[0] in _DL_CPU:
        return foreign.clone() if hasattr(foreign, "clone") else foreign
    for way in ("cpu", "get"):  # torch, cupy
        if hasattr(foreign, way):
            return getattr(foreign, way)()
    raise errors.TritonModelException(f"{type(foreign).__qualname__} has no way to the memory of the processor")


def _references(tensor):
    # The array is asked for by the same steps every time, so the number of references to one that is alone is a constant.
    return sys.getrefcount(tensor._array)


_ALONE = _references(Tensor("alone", np.zeros(1)))


def _is_alone(tensor):
    """Whether nobody but the tensor refers to the array's memory. An array that owns its memory knows all its views."""
    array = tensor._array
    if not array.flags.owndata:
        return False
    del array
    return _references(tensor) == _ALONE
