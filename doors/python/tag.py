"""The wheel's tag: it has machine code, and serves every CPython."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        # auditwheel writes the C library's version in its place.
        build_data["tag"] = "py3-none-linux_x86_64"
