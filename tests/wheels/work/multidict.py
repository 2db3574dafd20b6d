"""multidicts, their views, case, errors while they change"""

from multidict import CIMultiDict, MultiDict, istr
from multidict import _multidict


def work(tell):
    tell("compiled", _multidict.__file__.endswith(".so"))
    values = CIMultiDict((f"Key-{i % 37}", i) for i in range(500))
    tell("all", [values.getall("KEY-5"), values.getone("key-36"), len(values)])
    values.extend({istr("Key-5"): "x"})
    values.popall("key-7")
    tell("items", [[str(key), str(value)] for key, value in values.items()])
    other = MultiDict(a=1, b=2)
    other.add("a", 3)
    tell("keys", [sorted(other.keys() & {"a"}), other == MultiDict([("a", 1), ("b", 2), ("a", 3)])])
    try:
        for key in other:
            other.add(key, 1)
    except RuntimeError as error:
        tell("error", str(error))
