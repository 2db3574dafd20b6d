"""Imports the package `_hydrozoa`, whose modules' sources are in SOURCES, by name, and `threading` on any thread."""

import posix
import sys
from _thread import allocate_lock, get_ident, get_native_id

# Part of every interpreter from its start; importlib.machinery would load more.
from _frozen_importlib import ModuleSpec


class Importer:
    """Finder and loader (PEP 451) of `_hydrozoa` and its modules. Of `threading` it is the finder."""

    def __init__(self, sources):
        self._sources = sources

    def find_spec(self, name, path=None, target=None):
        if name == "threading":
            return self.find_threading(target)
        package, _, module = name.partition(".")
        if package != "_hydrozoa":
            return None
        if not module:
            return ModuleSpec(name, self, is_package=True)
        if module not in self._sources:
            return None
        spec = ModuleSpec(name, self, origin=f"_hydrozoa/{module}.py")
        # Not in angle brackets: linecache asks get_source only for names that could be files.
        spec.has_location = True
        return spec

    def find_threading(self, target):
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec("threading", None, target)
            if spec is not None:
                spec.loader = Threading(spec.loader)
                return spec
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        spec = module.__spec__
        if spec.submodule_search_locations is None:
            code = compile(self.get_source(spec.name), spec.origin, "exec", dont_inherit=True)
            exec(code, module.__dict__)

    def get_source(self, name):
        source = self._sources.get(name.rpartition(".")[2])
        return None if source is None else str(source, "utf-8")


# This runs on Python's main thread, in the process that starts it.
MAIN, NATIVE, PROCESS = get_ident(), get_native_id(), posix.getpid()


class Threading:
    """Loader of `threading`. Its own takes the thread that imports it first for Python's main thread (up to 3.12 its identity,
    later its number in the system), and `threading._shutdown` then waits for that one (up to 3.12). To import it at the start
    would take some hundred KiB in interpreters that never need it."""

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        # The thread that forks is the main thread of the child.
        if get_ident() != MAIN and posix.getpid() == PROCESS:
            self.name_main_thread(module)

    def name_main_thread(self, threading):
        main = threading._main_thread
        with threading._active_limbo_lock:
            del threading._active[main._ident]
            main._ident, main._native_id = MAIN, NATIVE
            threading._active[MAIN] = main
        ends = getattr(main, "_tstate_lock", None)
        if ends is not None:
            # The end of the importing thread releases the lock that it has. _shutdown releases this one.
            main._tstate_lock = allocate_lock()
            main._tstate_lock.acquire()
            with threading._shutdown_locks_lock:
                threading._shutdown_locks.discard(ends)
                threading._shutdown_locks.add(main._tstate_lock)


sys.meta_path.insert(0, Importer(SOURCES))
