"""A running python has interpreters of its own installation beside it, before and after its own imports.

    python in_python.py LIBRARY MODULES

LIBRARY is the example in_python; MODULES are imported first, by this python and by each interpreter.
"""

import ctypes
import sys

WORK = """
import _ctypes, ctypes, decimal, hashlib, json, zlib
assert zlib.decompress(zlib.compress(b"x" * 100)) == b"x" * 100
for name in MODULES:
    __import__(name)
if "numpy" in MODULES:
    import numpy
    assert numpy.arange(10) @ numpy.arange(10) == 285
if "torch" in MODULES:
    import torch
    weights = torch.ones(4, requires_grad=True)
    (weights * weights).sum().backward()
    assert weights.grad.sum().item() == 8
    assert torch.nn.Linear(4, 2)(torch.ones(3, 4)).shape == (3, 2)
"""


def main() -> None:
    library, modules = sys.argv[1], sys.argv[2].split()
    work = f"MODULES = {modules!r}\n{WORK}"
    run = ctypes.CDLL(library).run_in_a_pool
    before = run(sys.prefix.encode(), work.encode())
    exec(work, {})
    after = run(sys.prefix.encode(), work.encode())
    exec(work, {})
    print(f"before {before}, after {after}")


main()
