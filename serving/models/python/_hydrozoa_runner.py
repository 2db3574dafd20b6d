"""Runs a Python model for the server: imports it, makes its instance, and gives it requests."""

import asyncio
import importlib
import json
import sys
import threading
import time

import triton_python_backend_utils as utils
from _hydrozoa_errors import traceback_of, words_of
from _hydrozoa_memory import Shortage

_instance = None
_name = ""
_is_decoupled = False
_loop = None
_loop_thread = None
_loop_lock = threading.Lock()
_background = set()
_shortage = Shortage()


class _Late(BaseException):
    """A coroutine has exceeded the limit of its execution."""


def _model_class(directory, version, file_name):
    """The class of the model. As with Triton, the module's name begins with the version, and the model's folder and the
    version's are searched."""
    sys.path[:0] = [path for path in (f"{directory}/{version}", directory) if path not in sys.path]
    importlib.invalidate_caches()
    module = importlib.import_module(f"{version}.{file_name[: -len('.py')]}")
    try:
        return module.TritonPythonModel
    except AttributeError:
        raise utils.TritonModelException(
            f"{directory}/{version}/{file_name} has no class TritonPythonModel"
        ) from None


def complete(directory, version, file_name, config):
    """The configuration as the model completes it."""
    model = _model_class(directory, version, file_name)
    if not hasattr(model, "auto_complete_config"):
        return config
    completed = model.auto_complete_config(utils.ModelConfig(config))
    if not isinstance(completed, utils.ModelConfig):
        raise utils.TritonModelException(
            f"auto_complete_config function in model '{json.loads(config)['name']}' must return a valid pb.ModelConfig "
            "object."
        )
    return json.dumps(completed.as_dict())


def initialize(directory, version, file_name, arguments, is_decoupled):
    """Makes the instance and initializes it."""
    global _instance, _name, _is_decoupled
    model = _model_class(directory, version, file_name)
    instance = model()
    if hasattr(instance, "initialize"):
        instance.initialize(arguments)
    _instance, _name, _is_decoupled = instance, arguments["model_instance_name"], is_decoupled


def finalize():
    """Ends the instance."""
    global _instance
    instance, _instance = _instance, None
    if instance is not None and hasattr(instance, "finalize"):
        instance.finalize()


def tells_readiness():
    """Whether the model says itself whether it is ready."""
    return callable(getattr(_instance, "is_ready", None))


def is_ready():
    """The answer of the model's `is_ready`. Other threads may execute requests meanwhile."""
    try:
        answer = _instance.is_ready()
        if asyncio.iscoroutine(answer):
            answer = asyncio.run_coroutine_threadsafe(answer, _event_loop()).result()
        if not isinstance(answer, bool):
            raise utils.TritonModelException(f"Expected a bool from is_ready, found type '{type(answer)}'.")
        return answer
    except Exception as error:
        utils._server.failed(f"is_ready of model '{_name}' failed, message: {words_of(error)}", traceback_of(error))
        return False


def execute(received, limited):
    """Runs requests. Returns an answer for each, or None where the model answers by a sender. If all have failed, returns a
    text instead, which says why."""
    try:
        requests = [utils.InferenceRequest._received(*request) for request in received]
        if not hasattr(_instance, "execute"):
            raise utils.TritonModelException(f"Python model {_name} does not implement `execute` method.")
        returned = _instance.execute(requests)
        if asyncio.iscoroutine(returned):
            if _is_decoupled:
                _begin(returned, requests, limited)
                return [None] * len(requests)
            returned = _started(returned, limited, False).result()
        return _answers(requests, returned)
    except _Late:
        return limited.words()
    except Exception as error:
        return _failed(error)


def _answers(requests, returned):
    if returned is None:
        return [None] * len(requests)
    if _is_decoupled:
        raise utils.TritonModelException(
            f"Python model '{_name}' is using the decoupled mode and the execute function must return None."
        )
    if not isinstance(returned, list):
        raise utils.TritonModelException(f"Expected a list in the execute return, found type '{type(returned)}'.")
    if len(returned) != len(requests):
        raise utils.TritonModelException(
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. InferenceRequest(s) "
            f"size is:{len(requests)}, and InferenceResponse(s) size is:{len(returned)}\n"
        )
    for response in returned:
        if response is not None and not isinstance(response, utils.InferenceResponse):
            raise utils.TritonModelException(
                "Expected an 'InferenceResponse' object in the execute function return list, found type "
                f"'{type(response)}'."
            )
    # Nobody but a response may refer to its arrays when the server takes them.
    answers = []
    for request in requests:
        response = returned.pop(0)
        answers.append(None if response is None else response._sent(request._outputs))
    return answers


def _failed(error):
    _shortage.note(error)
    message = f"Failed to process the request(s) for model '{_name}', message: {words_of(error)}"
    utils._server.failed(message, traceback_of(error))
    return message


def is_exhausted():
    """Whether a want of memory stays, behind a MemoryError."""
    return _shortage.stays()


def _started(coroutine, limited, goes_on):
    """The future of a coroutine that the loop runs."""
    if limited is not None:
        limited.coroutine(goes_on)
        coroutine = _timed(coroutine, limited)
    return asyncio.run_coroutine_threadsafe(coroutine, _event_loop())


async def _timed(coroutine, limited):
    """The coroutine's result. It is cancelled at the limit."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.wait([task], timeout=limited.left())
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait([task])
    if task.cancelled() or task.exception() is not None:
        raise _Late
    return task.result()


def _begin(coroutine, requests, limited):
    """Runs a decoupled model's coroutine while further requests are taken."""
    future = _started(coroutine, limited, True)
    _background.add(future)

    def ended(future):
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            message = limited.words() if isinstance(error, _Late) else _failed(error)
            for request in requests:
                request._live.send(((utils.TritonError.INTERNAL, message), {}, []), True)
        _background.discard(future)
        if limited is not None:
            limited.over()

    future.add_done_callback(ended)


def _event_loop():
    global _loop, _loop_thread
    with _loop_lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _loop_thread = threading.Thread(target=_run_loop, name=f"{_name}-events", daemon=True)
            _loop_thread.start()
        return _loop


def _run_loop():
    while True:
        try:
            return _loop.run_forever()
        except _Late:
            # The coroutine that was meant has come to its end meanwhile.
            continue


def interrupt_loop():
    """Interrupts the task that the loop runs now, if it keeps the loop: it does not come to an await, where it would be
    cancelled. A loop that waits for a processor is left alone."""
    if _loop is None:
        return
    turned, thread = threading.Event(), _loop_thread.ident
    _loop.call_soon_threadsafe(turned.set)
    clock = time.pthread_getcpuclockid(thread)
    used = time.clock_gettime(clock)
    for _ in range(100):
        if turned.wait(0.01):
            return
        # The task may wait for another model, and keep the loop from everything else.
        call = utils._waiting.get(thread)
        if call is not None:
            call.give_up()
        now = time.clock_gettime(clock)
        if now - used > 0.015 and asyncio.current_task(_loop) is not None:
            import ctypes

            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Late))
            used = now
