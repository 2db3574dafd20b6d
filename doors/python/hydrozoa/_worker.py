"""Runs calls in an interpreter. Registered there as `_hydrozoa_worker`, beside `_hydrozoa_pickling`."""

import sys
import traceback

import _hydrozoa_pickling as pickling

VALUE, RAISED = b"v", b"r"


# This interpreter's access to the program's queues, movables and packages (hz_session_companion).
companion = None
# How many threads libraries may use, if somebody says so.
inner_threads = None
_seen = None


def _limit_threads():
    """All interpreters share one libgomp, which reads the environment of the process. It keeps a thread count for each calling
    thread: threadpoolctl sets this thread's. scikit-learn, which needs libgomp, depends on threadpoolctl."""
    global _seen
    control = sys.modules.get("threadpoolctl")
    if control is None or inner_threads is None or _seen == len(sys.modules):
        return
    _seen = len(sys.modules)
    try:
        control.threadpool_limits(limits=inner_threads, user_api="openmp")
    except (AttributeError, OSError):
        # It is being imported, or does not know a library.
        _seen = None


def _described(error):
    """An exception as its name, its text and its traceback, and its own pickle if there can be one."""
    if type(error).__module__.startswith("_hydrozoa."):
        # The caller has interrupted it.
        error = KeyboardInterrupt(*error.args).with_traceback(error.__traceback__)
    kind = type(error)
    text = "".join(traceback.format_exception(kind, error, error.__traceback__))
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        own, views = pickling.dumps((error, error.__cause__))
        # One that cannot be made again would break the caller.
        pickling.loads(own, views)
    except BaseException:
        own, views = None, []
    try:
        message = str(error)
    except BaseException:
        message = ""
    described, _ = pickling.dumps((name, message, text, own))
    return RAISED + described, views


def run(data, *views):
    """Calls what is pickled: bytes, or a tuple of bytes and the memory beside them."""
    try:
        function, arguments, keywords = pickling.loads(data, views)
        del data, views
        _limit_threads()
        value = function(*arguments, **keywords)
        del function, arguments, keywords
        data, views = pickling.dumps(value)
        data = VALUE + data
    except BaseException as error:
        data, views = _described(error)
    return (data, *views) if views else data
