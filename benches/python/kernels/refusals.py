"""Exceptions of an application, for `failures`."""


class Refused(ValueError):
    def __init__(self, reason, code):
        super().__init__(reason)
        self.code = code


class Absent(LookupError):
    pass


def checked(number):
    if number % 7 == 0:
        raise Refused(f"{number} is refused", number % 11)
    if number % 5 == 0:
        raise Absent(number)
    return number
