"""Imports the package `_hydrozoa`, whose modules' sources are in SOURCES, by name."""

import sys

# Part of every interpreter from its start; importlib.machinery would load more.
from _frozen_importlib import ModuleSpec


class Importer:
    """Finder and loader (PEP 451) of `_hydrozoa` and its modules."""

    def __init__(self, sources):
        self._sources = sources

    def find_spec(self, name, path=None, target=None):
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


sys.meta_path.insert(0, Importer(SOURCES))
