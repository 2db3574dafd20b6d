"""Made-up text, for other kernels."""

import random

SYLLABLES = ("ka", "lo", "mi", "re", "su", "ta", "no", "vi", "de", "pu")


def words(seed, count):
    draw = random.Random(seed)
    return ["".join(draw.choices(SYLLABLES, k=draw.randrange(1, 5))) for _ in range(count)]


def lines(seed, count):
    draw = random.Random(seed)
    return [
        f"2024-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02} "
        f"{draw.choice(('GET', 'PUT'))} /{'/'.join(words(number, 3))}?id={draw.randrange(9999)} "
        f"{draw.choice((200, 304, 404))} {draw.random():.3f}ms"
        for number in range(count)
    ]
