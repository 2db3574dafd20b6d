"""Exceptions: raised, handled, passed on, and `finally`."""

from kernels.refusals import Absent, Refused, checked


def _convert(number):
    try:
        return checked(number)
    except Refused as error:
        if error.code == 3:
            raise KeyError(number) from error
        return -error.code
    finally:
        _convert.calls += 1


_convert.calls = 0


def run():
    total = absent = keys = 0
    _convert.calls = 0
    for number in range(60_000):
        try:
            total += _convert(number)
        except Absent:
            absent += 1
        except KeyError as error:
            keys += isinstance(error.__cause__, ValueError)
        else:
            total += 1
    return repr((total, absent, keys, _convert.calls))
