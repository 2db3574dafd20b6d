"""An interpreter's `__main__`. The same file serves in the interpreters."""

import sys

# Pickles name this module, which has one name on both sides.
sys.modules.setdefault("_hydrozoa_main", sys.modules[__name__])
__name__ = "_hydrozoa_main"


def execute(code):
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


def assign(names):
    vars(sys.modules["__main__"]).update(names)
