"""The functions that both sides call."""


def nothing():
    return None


def same(value):
    return value


def add(a, b):
    return a + b


class Counter:
    def nothing(self):
        return None


counter = Counter()


def drive(function, count):
    return sum(map(function, range(count)))
