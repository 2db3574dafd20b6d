"""The module that Python models of Triton import: requests, responses, and the server's services for models.

Names and behaviour are those of Triton's Python backend (github.com/triton-inference-server/python_backend). The server
sets `_server` before it imports a model.
"""

import asyncio
import enum
import json
import operator
import threading

from _hydrozoa_config import (
    ModelConfig,
    get_input_config_by_name,
    get_output_config_by_name,
    using_decoupled_model_transaction_policy,
)
from _hydrozoa_errors import TritonError, TritonModelException, check_kind, shown
from _hydrozoa_metrics import Metric, MetricFamily
from _hydrozoa_tensors import (
    Tensor,
    deserialize_bytes_tensor,
    numpy_to_triton_type,
    serialize_byte_tensor,
    triton_string_to_numpy,
    triton_to_numpy_type,
)

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2


class MemoryType(enum.IntEnum):
    TRITONSERVER_MEMORY_CPU = 0
    TRITONSERVER_MEMORY_GPU = 2


TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU


class PreferredMemory:
    """Where a request wants its outputs. Outputs are given where the model has made them."""

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        self.preferred_memory_type = MemoryType(preferred_memory_type)
        self.preferred_device_id = preferred_device_id


class InferenceTrace:
    """The trace of a request."""

    def __init__(self, context=None):
        self._context = context

    def get_context(self):
        return self._context


def _by_name(tensors, name):
    return next((tensor for tensor in tensors if tensor._name == name), None)


def get_input_tensor_by_name(inference_request, name):
    """The request's input of this name; None if it has none."""
    return _by_name(inference_request._inputs, name)


def get_output_tensor_by_name(inference_response, name):
    """The response's output of this name; None if it has none."""
    return _by_name(inference_response._outputs, name)


def get_model_dir():
    """The folder of the model's version."""
    return _server.model_directory


def _checked_parameters(parameters):
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise TypeError(f"parameters must be a dict, got {type(parameters)}")
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(f"Expect parameters keys to have type str, found type {type(key)}")
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type {type(value)}"
            )
    return dict(parameters)


def _tensors(values, what):
    values = list(values)
    for value in values:
        if value is None:
            raise TritonModelException(f"{what} should not be empty.")
        check_kind(value, Tensor, what)
    return values


class InferenceRequest:
    """A request: one that the server has, or one that a model makes of another model."""

    __slots__ = (
        "_inputs",
        "_id",
        "_correlation_id",
        "_outputs",
        "_flags",
        "_timeout",
        "_parameters",
        "_trace",
        "_live",
        "_sender",
        "_model_name",
        "_model_version",
        "_release_flags",
    )

    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=None,
        requested_output_names=None,
        model_name=None,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
    ):
        if not isinstance(correlation_id, (int, str)):
            raise TypeError("Correlation ID must be integer or string")
        check_kind(request_id, str, "request_id")
        check_kind(model_name, str, "model_name")
        of = f"for request with id '{request_id}' and model name '{model_name}'"
        self._id, self._correlation_id = request_id, correlation_id
        self._flags, self._timeout = operator.index(flags), operator.index(timeout)
        self._inputs = _tensors(inputs, f"Input tensor {of}")
        self._outputs = list(requested_output_names)
        for name in self._outputs:
            check_kind(name, str, "a requested output's name")
        if not all(self._outputs):
            raise TritonModelException(f"Requested output name {of} should not be empty.")
        self._model_name, self._model_version = model_name, operator.index(model_version)
        self._parameters, self._trace = _checked_parameters(parameters), trace or InferenceTrace()
        self._live = self._sender = None
        self._release_flags = TRITONSERVER_REQUEST_RELEASE_ALL

    @classmethod
    def _received(cls, live, identity, correlation_id, flags, timeout, parameters, outputs, inputs):
        request = cls.__new__(cls)
        request._id, request._correlation_id, request._flags, request._timeout = identity, correlation_id, flags, timeout
        request._parameters, request._outputs, request._live = parameters, outputs, live
        request._inputs = [Tensor._received(*tensor) for tensor in inputs]
        request._model_name, request._model_version, request._trace = "", -1, InferenceTrace()
        request._sender = InferenceResponseSender(live, outputs)
        request._release_flags = TRITONSERVER_REQUEST_RELEASE_ALL
        return request

    def inputs(self):
        return self._inputs

    def request_id(self):
        return self._id

    def correlation_id(self):
        return self._correlation_id

    def requested_output_names(self):
        return self._outputs

    def flags(self):
        return self._flags

    def set_flags(self, flags):
        self._flags = flags

    def timeout(self):
        return self._timeout

    def parameters(self):
        return json.dumps(self._parameters)

    def trace(self):
        return self._trace

    def is_cancelled(self):
        return self._live is not None and self._live.is_cancelled()

    def get_response_sender(self):
        return self._sender

    def set_release_flags(self, flags):
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException(f"Unable to set release flags. Unsupported flag provided: {flags}")
        if flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE:
            raise TritonModelException("requests cannot be scheduled again: this server has no iterative sequences")
        self._release_flags = flags

    def exec(self, decoupled=False):
        """Runs the request on another model of the server: its response, or an iterator of responses."""
        responses = self._begun(decoupled)
        return responses if decoupled else next(responses)

    def async_exec(self, decoupled=False):
        """As exec, as an awaitable."""
        loop = asyncio.get_running_loop()
        responses = self._begun(decoupled)
        # The first response is waited for outside the loop. An iterator waits for further ones where it is used.
        future = loop.run_in_executor(None, responses._with_first if decoupled else responses.__next__)
        future.add_done_callback(lambda future: future.cancelled() and responses._call.give_up())
        return future

    def _begun(self, decoupled):
        """The responses of the request, which the other model has."""
        inputs = [tensor._sent() for tensor in self._inputs]
        call = _server.infer(
            self._model_name,
            self._model_version,
            decoupled,
            (self._id, self._correlation_id, self._flags, self._timeout, self._parameters, self._outputs, inputs),
        )
        return ResponseIterator(call)


# The calls of other models that threads wait for now, by the threads' identifiers.
_waiting = {}


class ResponseIterator:
    """The responses of a request to a decoupled model, as they come. Behind the last one, a
    new loop begins with the first."""

    def __init__(self, call):
        self._call, self._responses, self._place, self._is_over = call, [], 0, False

    def __iter__(self):
        if self._is_over and self._place == len(self._responses):
            self._place = 0
        return self

    def _with_first(self):
        """The iterator, when it has a response or will have none."""
        self._receive()
        return self

    def _receive(self):
        """Waits for a response, if all that have come were taken."""
        if self._place < len(self._responses) or self._is_over:
            return
        thread = threading.get_ident()
        _waiting[thread] = self._call
        try:
            received = self._call.next()
        finally:
            del _waiting[thread]
        if received is None:
            self._is_over = True
        else:
            self._responses.append(InferenceResponse._received(*received))

    def __next__(self):
        self._receive()
        if self._place == len(self._responses):
            raise StopIteration("Iteration is done for the responses.")
        self._place += 1
        return self._responses[self._place - 1]

    def cancel(self):
        """Tells the model that nobody waits for further responses."""
        self._call.cancel()


class InferenceResponse:
    """Outputs, or an error."""

    __slots__ = ("_outputs", "_error", "_parameters")

    def __init__(self, output_tensors=(), error=None, parameters=None):
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(f"error is a TritonError, not {type(error).__qualname__}")
        self._outputs = _tensors(output_tensors, "Output tensor for inference response")
        self._error, self._parameters = error, _checked_parameters(parameters)

    @classmethod
    def _received(cls, error, parameters, outputs):
        response = cls.__new__(cls)
        response._error = None if error is None else TritonError(error[1], error[0])
        response._outputs = [Tensor._received(*tensor) for tensor in outputs]
        response._parameters = parameters
        return response

    def output_tensors(self):
        return self._outputs

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        return json.dumps(self._parameters)

    def _sent(self, wanted):
        """The response for the server: an error's code and message, parameters, outputs."""
        if self._error is not None:
            return (self._error._code, shown(self._error._message)), self._parameters, []
        outputs = [tensor._sent() for tensor in self._outputs if not wanted or tensor._name in wanted]
        return None, self._parameters, outputs


class InferenceResponseSender:
    """Sends responses of a request, from any thread, also when execute has returned."""

    __slots__ = ("_live", "_wanted")

    def __init__(self, live, wanted):
        self._live, self._wanted = live, wanted

    def send(self, response=None, flags=0):
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if response is None:
            if flags == 0:
                raise TritonModelException(
                    "Inference Response object must be provided when the response flags is set to zero."
                )
        elif not isinstance(response, InferenceResponse):
            raise TypeError(f"a response is an InferenceResponse, not {type(response).__qualname__}")
        sent = None if response is None else response._sent(self._wanted)
        problem = self._live.send(sent, flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if problem is not None:
            raise TritonModelException(f"Unable to send response. {problem}")

    def is_cancelled(self):
        return self._live.is_cancelled()


class LogLevel(enum.Enum):
    INFO, WARNING, ERROR, VERBOSE = range(4)


class Logger:
    """The server's log."""

    LogLevel = LogLevel
    INFO, WARNING, ERROR, VERBOSE = LogLevel

    @staticmethod
    def log(message, level=LogLevel.INFO):
        check_kind(message, str, "message")
        check_kind(level, LogLevel, "level")
        _server.log(level.value, shown(message))

    @staticmethod
    def log_info(message):
        Logger.log(message, Logger.INFO)

    @staticmethod
    def log_warn(message):
        Logger.log(message, Logger.WARNING)

    @staticmethod
    def log_error(message):
        Logger.log(message, Logger.ERROR)

    @staticmethod
    def log_verbose(message):
        Logger.log(message, Logger.VERBOSE)


def _raise(problem):
    if problem is not None:
        raise TritonModelException(problem)


def load_model(model_name, config="", files=None):
    """Loads a model of the server's repository, or loads it again."""
    _raise(_server.load_model(model_name, config, dict(files or {})))


def unload_model(model_name, unload_dependents=False):
    """Takes a model out of service."""
    _raise(_server.unload_model(model_name, bool(unload_dependents)))


def is_model_ready(model_name, model_version=""):
    """Whether a model, or a version of it, can be called."""
    return _server.is_model_ready(model_name, str(model_version))
