"""Calls and results as bytes, with memory beside them (PEP 574).

Pickles name this module, so the program and its interpreters have it by one name.
"""

import ctypes
import importlib
import io
import pickle
import sys
import types

# Shorter texts of bytes are copied with the rest.
LONG = 1 << 16


def is_shared(view):
    """Whether both sides may write the memory: tensors know no read-only memory."""
    return isinstance(view.obj, ctypes.Array)


def _beside(views, least):
    """A pickler's callback that puts memory of at least so many bytes into `views`. It does not know the pickler, whose memo
    would live as a cycle."""

    def callback(buffer):
        try:
            view = buffer.raw()
        except BufferError:
            # Memory with gaps is copied.
            return True
        if view.nbytes < least and not hasattr(view.obj, "is_always_beside"):
            return True
        views.append(view)
        return False

    return callback


class _Keeping(bytearray):
    """Memory that keeps an object."""

    is_always_beside = True


def keeping(object, protocol):
    """A part of a pickle that keeps an object alive until the pickle is loaded: memory beside it. None where there is none."""
    if protocol < 5:
        return None
    memory = _Keeping(1)
    memory.kept = object
    return pickle.PickleBuffer(memory)


class Pickler(pickle.Pickler):
    """Shares memory where pickle copies it."""

    def reducer_override(self, object):
        kind = type(object)
        if kind is memoryview:
            memory = object if object.c_contiguous else object.tobytes()
            return _view, (pickle.PickleBuffer(memory), object.format, object.shape)
        if kind is bytes and len(object) >= LONG:
            return bytes, (pickle.PickleBuffer(object),)
        if kind is bytearray and len(object) >= LONG:
            return bytearray, (pickle.PickleBuffer(object),)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(object, torch.Tensor):
            return _reduce_tensor(torch, object)
        return NotImplemented


def _view(buffer, format, shape):
    view = memoryview(buffer).cast("B")
    return view if (format, len(shape)) == ("B", 1) else view.cast(format, shape)


def _reduce_tensor(torch, tensor):
    """A tensor in main memory shares its storage. All others are pickled by torch."""
    plain = (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and tensor.is_leaf
        and not (tensor.is_conj() or tensor.is_neg())
        and not vars(tensor)
    )
    if not plain or tensor.untyped_storage().nbytes() == 0:
        return NotImplemented
    storage = tensor.untyped_storage()
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    memory.storage = storage
    return _tensor, (
        pickle.PickleBuffer(memory), str(tensor.dtype).removeprefix("torch."), tensor.storage_offset(), tuple(tensor.shape),
        tensor.stride(), tensor.requires_grad, type(tensor) is torch.nn.Parameter,
    )


def _tensor(buffer, dtype, offset, shape, strides, requires_grad, is_parameter):
    import torch

    whole = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
    tensor = torch.empty(0, dtype=getattr(torch, dtype)).set_(whole, offset, shape, strides)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _needs_value(object):
    """Whether a function or a class cannot be found by its name elsewhere: one of the main program's, or one without a place
    in a module."""
    module = getattr(object, "__module__", None)
    if module is None or module == "__main__":
        return True
    try:
        found = sys.modules.get(module) or importlib.import_module(module)
        for name in object.__qualname__.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return True
    return found is not object


class _ByValue(Exception):
    """A function or a class must go by its value."""


class _Checking(Pickler):
    def reducer_override(self, object):
        if isinstance(object, (types.FunctionType, type)) and _needs_value(object):
            raise _ByValue(object)
        return super().reducer_override(object)


def _cloudpickle():
    """cloudpickle, or the one that joblib brings where that is used."""
    try:
        import cloudpickle
    except ImportError:
        if "joblib" not in sys.modules:
            raise
        from joblib.externals import cloudpickle
    return cloudpickle


def _by_value(object, least):
    """cloudpickle's bytes of an object, and the memory that goes beside."""
    cloudpickle = _cloudpickle()

    class Cloud(cloudpickle.Pickler):
        def reducer_override(self, object):
            reduced = Pickler.reducer_override(self, object)
            return super().reducer_override(object) if reduced is NotImplemented else reduced

    file, views = io.BytesIO(), []
    file.write(_CODE + _VERSION + b"\n")
    Cloud(file, protocol=5, buffer_callback=_beside(views, least)).dump(object)
    return file.getvalue(), views


def dumps(object, least=0):
    """The bytes of an object, and the memory of at least `least` bytes that goes beside. Functions and classes go by
    reference. Those of the main program, lambdas and local ones go by cloudpickle."""
    file, views = io.BytesIO(), []
    try:
        _Checking(file, protocol=5, buffer_callback=_beside(views, least)).dump(object)
    except _ByValue as by_value:
        try:
            return _by_value(object, least)
        except ImportError:
            raise pickle.PicklingError(
                f"{by_value.args[0]!r} is in no module that an interpreter can import: put it into one, or install cloudpickle"
            ) from None
    return file.getvalue(), views


_CODE = b"code of "
"""Begins bytes with functions by value. A pickle of this protocol begins with another byte."""

_VERSION = b"%d.%d" % sys.version_info[:2]


def loads(data, views=()):
    """The object of such bytes. Code of one version of Python is no code for another one: it would crash."""
    if bytes(data[: len(_CODE)]) == _CODE:
        version, _, data = bytes(data[len(_CODE) :]).partition(b"\n")
        if version != _VERSION:
            raise pickle.UnpicklingError(
                f"a function or class of the main program, or a local one, is code of Python {version.decode()}, and this is "
                f"Python {_VERSION.decode()}: put it into a module that both can import"
            )
    return pickle.loads(data, buffers=views)
