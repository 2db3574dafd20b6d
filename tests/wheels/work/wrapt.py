"""decorators, proxies, monkey patches"""

import wrapt
from wrapt import _wrappers


@wrapt.decorator
def doubled(wrapped, instance, args, kwargs):
    return [type(instance).__name__, wrapped(*args, **kwargs) * 2]


class Thing:
    @doubled
    def method(self, x):
        return x + 1

    @doubled
    @classmethod
    def of_class(cls, x):
        return x + 2


@doubled
def function(x, y=3):
    return x * y


def work(tell):
    tell("compiled", _wrappers.__file__.endswith(".so"))
    tell("calls", [function(2), Thing().method(5), Thing.of_class(7)])
    tell("name", [function.__name__, function.__wrapped__(2)])
    proxy = wrapt.ObjectProxy([3, 1, 2])
    proxy.append(4)
    tell("proxy", [sorted(proxy), len(proxy), isinstance(proxy, list), proxy + [9]])
    partial = wrapt.PartialCallableObjectProxy(function, 4)
    tell("partial", partial(y=5))
    try:
        wrapt.ObjectProxy(3)()
    except TypeError as error:
        tell("error", str(error))
