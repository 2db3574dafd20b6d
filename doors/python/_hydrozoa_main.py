"""An interpreter's paths and its `__main__`.

Pickles name this module, so the program and its interpreters have it by one name.
"""

import sys


def prepare(path, standard, packages, threads, key):
    """Modules are found here as where the calls come from. Libraries may use so many threads. Managers of multiprocessing know this
    interpreter as they know the caller.

    The caller's Python may be another one: its standard library is no use here, and its packages come behind those of this one.
    """
    own = list(sys.path)
    behind = [entry for entry in packages if entry not in own]
    left = {entry for entry in standard if entry not in own}.union(behind)
    path = [entry for entry in path if entry not in left]
    sys.path[:] = path + [entry for entry in own if entry not in path] + behind
    sys.modules["_hydrozoa_worker"].inner_threads = threads
    if key is not None:
        from multiprocessing import process

        process.current_process().authkey = key


def execute(code):
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


def assign(names):
    vars(sys.modules["__main__"]).update(names)
