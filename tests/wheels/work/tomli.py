"""TOML read by a module that mypyc compiled"""

import tomli
from tomli import _parser

TEXT = """
title = "größe"
when = 1979-05-27T07:32:00.5-08:00
[a.b]
list = [1, 0x1f, 1e3, -inf, "x", {y = true}]
[[rows]]
n = 1
[[rows]]
n = 2
text = '''
raw
'''
"""


def work(tell):
    tell("compiled", _parser.__file__.endswith(".so"))
    tell("value", repr(tomli.loads(TEXT)))
    tell("long", tomli.loads("\n".join(f"k{i} = {i / 7}" for i in range(1000))))
    for wrong in ("a = 1\na = 2", "a = ", "[x\n"):
        try:
            tomli.loads(wrong)
        except tomli.TOMLDecodeError as error:
            tell(wrong, str(error))
