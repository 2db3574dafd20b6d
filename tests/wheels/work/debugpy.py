"""the debugger's compiled tracer: a session that its adapter does not have, thread states, evaluated expressions"""

import io
import contextlib
import sys
import threading

with contextlib.redirect_stderr(io.StringIO()):
    import debugpy
    import debugpy._vendored.force_pydevd
from _pydevd_bundle import pydevd_cython, pydevd_vars


def work(tell):
    tell("connected", debugpy.is_client_connected())
    tell("compiled", pydevd_cython.__file__.endswith(".so"))
    states = {}

    def inside(number):
        info = pydevd_cython.set_additional_thread_info(threading.current_thread())
        info.pydev_step_cmd = 100 + number
        states[number] = [info.pydev_state, info.pydev_step_cmd, info.is_tracing]

    threads = [threading.Thread(target=inside, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell("states", sorted(states.items()))
    space = {"x": 14, "names": ["a", "b"]}
    for expression in ("x * 3", "[name.upper() for name in names]", "sum(range(x))"):
        tell(expression, pydevd_vars.eval_in_context(expression, {}, space))
    tell("traced", sys.gettrace() is None)
