"""Errors of models."""

import operator
import traceback


def shown(text):
    """A text as one that has UTF-8: lone surrogates are written as `\\udc80`."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def words_of(error):
    """An exception's type and text. The code that makes the text may fail, too."""
    try:
        text = str(error)
    except Exception:
        # The words of Lib/traceback.py.
        text = "<exception str() failed>"
    return shown(f"{type(error).__name__}: {text}")


def traceback_of(error):
    """An exception's traceback."""
    return shown("".join(traceback.format_exception(type(error), error, error.__traceback__)))


class TritonModelException(Exception):
    """The exception that the server raises in a model, and that a model raises to fail a call."""


def check_kind(value, kind, what):
    """Refuses a value of another kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {kind.__name__}, not {type(value).__qualname__}")


class TritonError:
    """An error as part of a response."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7

    __slots__ = ("_message", "_code")

    def __init__(self, message, code=INTERNAL):
        check_kind(message, str, "message")
        code = operator.index(code)
        if code not in range(8):
            raise ValueError(f"{code} is no code of an error")
        self._message, self._code = message, code

    def message(self):
        return self._message

    def code(self):
        return self._code
