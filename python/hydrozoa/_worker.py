"""What runs in an interpreter for its callers. Registered there as `_hydrozoa_worker`, beside `_hydrozoa_pickling`."""

import sys
import traceback

import _hydrozoa_pickling as pickling

VALUE, RAISED = b"v", b"r"


def prepare(data):
    """Modules are found here as where the calls come from."""
    path, = pickling.loads(data)
    sys.path[:] = path + [entry for entry in sys.path if entry not in path]
    return b""


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
        value = function(*arguments, **keywords)
        del function, arguments, keywords
        data, views = pickling.dumps(value)
        data = VALUE + data
    except BaseException as error:
        data, views = _described(error)
    return (data, *views) if views else data
