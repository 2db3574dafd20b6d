"""Comprehensions, dicts, lists and sets."""

from collections import Counter, defaultdict

from kernels.words import words

WORDS = words(4, 4_000)


def run():
    groups = {}
    for _ in range(8):
        lengths = {word: len(word) for word in WORDS}
        groups = defaultdict(list)
        for at, word in enumerate(WORDS):
            groups[word[:2]].append(at * lengths[word])
        squares = [value * value for values in groups.values() for value in values if value % 3]
        rare = {word for word, count in Counter(WORDS).items() if count == 1}
        ordered = sorted(lengths.items(), key=lambda item: (-item[1], item[0]))
    return repr((len(squares), sum(squares), len(rare), ordered[:5], sorted(groups)[:3]))
