"""The wheel's tag: it has machine code, and serves every CPython."""

import os
import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        # The library is that of the machine which builds the wheel, unless that says another one. auditwheel writes the C library's version in its place.
        machine = os.environ.get("HYDROZOA_WHEEL_FOR") or platform.machine()
        build_data["tag"] = f"py3-none-linux_{machine}"
