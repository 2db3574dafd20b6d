"""Regular expressions on lines of a log."""

import re

from kernels.words import lines

LINE = re.compile(r"(\d{4})-(\d\d)-(\d\d) (GET|PUT) (/[^? ]*)\?id=(\d+) (\d{3}) (\d+\.\d+)ms")
VOWELS = re.compile(r"([aeiou])([^aeiou/]*)")
TEXT = "\n".join(lines(1, 3_000))


def run():
    found = LINE.findall(TEXT)
    swapped = VOWELS.sub(r"\2\1", TEXT)
    parts = re.split(r"[/?= ]+", TEXT)
    return repr((len(found), found[:3], len(swapped), swapped[:80], len(parts)))
