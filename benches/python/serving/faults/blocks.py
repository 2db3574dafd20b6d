"""A model that waits in C and holds the GIL: no interrupt reaches it."""

import ctypes


class TritonPythonModel:
    def execute(self, requests):
        ctypes.PyDLL(None).sleep(5)
        return [None for _ in requests]
