"""cached properties, set and deleted"""

from propcache import _helpers_c
from propcache.api import cached_property, under_cached_property


class Thing:
    def __init__(self):
        self._cache = {}
        self.calls = 0

    @cached_property
    def once(self):
        self.calls += 1
        return self.calls * 10

    @under_cached_property
    def under(self):
        self.calls += 1
        return self.calls * 100


def work(tell):
    tell("compiled", _helpers_c.__file__.endswith(".so"))
    things = [Thing() for _ in range(200)]
    tell("values", [[thing.once, thing.under, thing.once, thing.under, thing.calls] for thing in things])
    del things[0].once
    tell("again", things[0].once)
    try:
        things[0].under = 3
    except AttributeError as error:
        tell("error", str(error))
