"""JSON to Python, partial input, big integers, errors"""

import decimal

import jiter


def work(tell):
    text = ('{"a": [1, 2.5, 1e400, null, true, "ü\\u00e9"], "big": ' + "9" * 60 + "}").encode()
    tell("value", repr(jiter.from_json(text)))
    tell("many", jiter.from_json(("[" + ",".join(str(i / 3) for i in range(3000)) + "]").encode()))
    tell("partial", jiter.from_json(b'{"a": [1, 2, "thr', partial_mode="trailing-strings"))
    tell("decimal", str(jiter.from_json(b"1.10000000000000000001", float_mode="decimal") + decimal.Decimal(1)))
    jiter.cache_clear()
    tell("cache", jiter.from_json(b'["key", "key", "key"]', cache_mode="all"))
    for wrong in (b"[1, 2", b'{"a": nope}', b'"\xff"'):
        try:
            jiter.from_json(wrong)
        except ValueError as error:
            tell(repr(wrong), str(error))
