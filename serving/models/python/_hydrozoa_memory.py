"""Decides what a MemoryError means for an interpreter that runs a model."""

import gc

# An instance that cannot have so many bytes can do nothing any more.
_RESERVE = 1 << 20


class Shortage:
    """Errors that say that memory is short, and whether it stays so."""

    def __init__(self):
        self._is_noted = False

    def note(self, error):
        """Notes an error that an execution has ended with."""
        self._is_noted = self._is_noted or isinstance(error, MemoryError)

    def stays(self):
        """Whether memory is still short behind such an error. It is asked once for each."""
        if not self._is_noted:
            return False
        self._is_noted = False
        gc.collect()
        try:
            bytearray(_RESERVE)
        except MemoryError:
            return True
        return False
