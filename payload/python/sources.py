"""Importable modules whose source comes from the application."""

import importlib.machinery
import linecache
import sys


class _Finder:
    """Finder and loader of the modules in `_sources`."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname not in _sources:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, _Finder, origin=f"{fullname}.py")
        # Tracebacks and inspect ask the loader for the source of what could be a file.
        spec.has_location = True
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        linecache.lazycache(module.__file__, vars(module))
        exec(compile(_sources[name], module.__file__, "exec", dont_inherit=True), vars(module))

    @staticmethod
    def get_source(fullname):
        return _sources.get(fullname)


_sources = {}


def register(name, source):
    """Makes `name` importable. An imported module of that name is removed from `sys.modules`."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    _sources[name] = source
    if sys.modules.pop(name, None) is not None:
        linecache.cache.pop(f"{name}.py", None)
