"""Runs at the start of an interpreter which is not a command, before any code of the program."""

import sys

import _signal

# The table of the module `signal` is filled when the module is initialised. SIGINT gets a handler there that raises KeyboardInterrupt.
# The host refuses that handler, since signals are the application's; the table should say so.
try:
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
except OSError:
    pass  # The application has installed a handler just now.

# An isolated configuration has the limit fixed, and up to 3.11 no field for it.
digits = sys._xoptions.get("int_max_str_digits")
if digits is not None:
    sys.set_int_max_str_digits(int(digits))
