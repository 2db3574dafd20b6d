"""dataclasses, numpy arrays, options, fragments, errors"""

import dataclasses
import datetime
import enum
import uuid

import numpy
import orjson


class Kind(enum.Enum):
    ONE = "one"


@dataclasses.dataclass
class Item:
    name: str
    kind: Kind
    when: datetime.datetime
    below: list


def work(tell):
    item = Item("ü\n", Kind.ONE, datetime.datetime(2024, 2, 29, 1, 2, 3), [uuid.UUID(int=5), None, 1e300])
    tell("dataclass", orjson.dumps([item] * 20, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_NAIVE_UTC))
    array = numpy.arange(600, dtype=numpy.float32).reshape(20, 30) / 7
    tell("numpy", orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY))
    tell("default", orjson.dumps({1: {2, 3}}, default=sorted, option=orjson.OPT_NON_STR_KEYS))
    tell("fragment", orjson.dumps([orjson.Fragment(b"{}"), 1]))
    text = orjson.dumps({f"k{i}": [i, i / 3, str(i) * 5] for i in range(500)})
    tell("round", orjson.dumps(orjson.loads(text)) == text)
    for wrong in (b"[1,", b'{"a": nan}', b'"\xff"'):
        try:
            orjson.loads(wrong)
        except orjson.JSONDecodeError as error:
            tell(repr(wrong), str(error))
    try:
        orjson.dumps(object())
    except TypeError as error:
        tell("error", str(error))
