"""The wheel's tag: it has machine code, and serves every CPython."""

import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        # The library is that of the machine which builds the wheel. auditwheel writes the C library's version in its place.
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"
