"""An interpreter's paths and its `__main__`.

Pickles name this module, so the program and its interpreters have it by one name.
"""

import sys


def prepare(path, threads, key):
    """Modules are found here as where the calls come from. Libraries may use so many threads. Managers of multiprocessing know this
    interpreter as they know the caller."""
    sys.path[:] = path + [entry for entry in sys.path if entry not in path]
    sys.modules["_hydrozoa_worker"].inner_threads = threads
    if key is not None:
        from multiprocessing import process

        process.current_process().authkey = key


def execute(code):
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


def assign(names):
    vars(sys.modules["__main__"]).update(names)
