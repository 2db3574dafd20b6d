"""JSON read and written, options, errors"""

import ujson


def work(tell):
    value = {"a": [1, 2.5, -1e-7, None, True, "ü/<>", 2**80], "deep": {"x": [[[{}]]]}}
    tell("text", ujson.dumps(value, indent=2, escape_forward_slashes=False, sort_keys=True))
    tell("html", ujson.dumps(value, encode_html_chars=True, ensure_ascii=False))
    tell("many", ujson.loads(ujson.dumps([i / 3 for i in range(3000)])))
    tell("default", ujson.dumps({"s": {3}}, default=sorted))
    for wrong in ("[1,", '{"a" 1}', "nope"):
        try:
            ujson.loads(wrong)
        except ujson.JSONDecodeError as error:
            tell(wrong, str(error))
