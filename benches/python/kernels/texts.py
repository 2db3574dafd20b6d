"""Strings built of strings."""

from kernels.words import words

WORDS = words(3, 3_000)


def _table():
    rows = []
    for number, word in enumerate(WORDS):
        row = f"{number:>6} | {word:<12} | {number / 3:8.2f} | {word.upper()!r}"
        rows.append(row.replace("A", "4"))
    return "\n".join(rows)


def run():
    text = ""
    for _ in range(5):
        text = _table()
        for word in WORDS[:500]:
            text += word.title()
        text = text.strip().lower()
        parts = [part.partition("|")[2].strip() for part in text.splitlines()]
        text = "%s %d" % (",".join(parts), len(text))
    return f"{len(text)} {text[-200:]}"
