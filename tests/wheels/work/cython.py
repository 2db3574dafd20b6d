"""sources translated to C by the compiled compiler"""

import tempfile
from pathlib import Path

from Cython.Compiler import Code, Scanning
from Cython.Compiler.Main import compile_single, CompilationOptions
from Cython import Shadow

SOURCE = '''
# cython: language_level=3
cdef class Tree:
    cdef public double weight
    cdef list below
    def __init__(self, double weight):
        self.weight, self.below = weight, []
    cpdef double total(self) except? -1:
        cdef Tree one
        return self.weight + sum([one.total() for one in self.below])
def fast(int n, double[:] values):
    cdef int i
    cdef double x = 0
    for i in range(n):
        x += values[i] ** 2
    return x
'''


def work(tell):
    tell("compiled", [Scanning.__file__.endswith(".so"), Code.__file__.endswith(".so")])
    tell("shadow", Shadow.compiled)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree.pyx"
        path.write_text(SOURCE)
        result = compile_single(str(path), CompilationOptions(output_file=f"{folder}/tree.c"), "tree")
        text = Path(result.c_file).read_text().replace(folder, "")
        tell("lines", len(text.splitlines()) > 5000)
        tell("text", text)
