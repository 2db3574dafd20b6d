"""JSON there and back."""

import json

from kernels.words import words

DOCUMENT = [
    {"id": number, "name": name, "tags": words(number, 5), "size": number / 7, "parent": None, "shown": number % 3 == 0}
    for number, name in enumerate(words(2, 700))
]


def run():
    text = ""
    for _ in range(6):
        text = json.dumps(json.loads(json.dumps(DOCUMENT)), sort_keys=True)
    return f"{len(text)} {text[:200]}"
