"""The exceptions that the host raises to interrupt calls. Derived from KeyboardInterrupt: `except Exception` lets them pass."""

import opcode
import sys


class Interrupted(KeyboardInterrupt):
    """The host has interrupted the call."""

    def __str__(self):
        return super().__str__() or type(self).__doc__


class DeadlineExceeded(Interrupted):
    """The call has exceeded its deadline."""


def _kind(name):
    """The kind of an instruction, for payload/src/exceptions/safe_points.rs. Each release has other numbers."""
    if "CALL" in name and "INTRINSIC" not in name:
        # Of the two of 3.11, the first one runs a C function.
        return 1 | 2 | (0 if name == "PRECALL" else 128)
    if name == "JUMP_BACKWARD" or name == "RESUME":
        # The garbage collector runs there since 3.12 (`_Py_HandlePending` in Python/ceval_gil.c).
        return 2 | (32 if sys.version_info >= (3, 12) else 0)
    if name.startswith(("JUMP_ABSOLUTE", "POP_JUMP", "YIELD_VALUE")):
        return 2
    if name == "LOAD_METHOD" or name == "LOAD_ATTR":
        # The lowest bit says whether a method is loaded (Python/bytecodes.c).
        return 8 if sys.version_info >= (3, 12) else 4
    if name == "LOAD_SPECIAL":
        return 16
    if name.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF", "POP_TOP", "RETURN_")):
        return 32
    return 64 if name == "EXTENDED_ARG" else 0


_NAMES = {number: name for name, number in opcode.opmap.items()}
KINDS = bytes(_kind(_NAMES.get(number, "")) for number in range(256))
