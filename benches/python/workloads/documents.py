"""A request in JSON to a model and its answer in JSON: checks and features in pure Python, the model in numpy."""

import json
import math
import random

import numpy
from workloads import CALLS, digest

ITEMS = 128
TAGS = ("new", "sale", "import", "fragile", "large", "gift", "digital", "returned")
COUNTRIES = ("at", "be", "ch", "de", "es", "fr", "it", "nl")
FEATURES = len(TAGS) + len(COUNTRIES) + 6
HIDDEN = 64


def _request(seed):
    draw = random.Random(seed)
    items = [
        {
            "id": f"{seed:02}-{number:05}",
            "price": {"amount": round(draw.expovariate(0.02), 2), "currency": "EUR"},
            "seller": {"country": draw.choice(COUNTRIES), "rating": round(draw.uniform(1, 5), 1)},
            "tags": draw.sample(TAGS, draw.randrange(4)),
            "title": " ".join(draw.choices(("chair", "lamp", "table", "shelf", "rug"), k=draw.randrange(2, 9))),
            "history": [draw.randrange(100) for _ in range(draw.randrange(1, 20))],
        }
        for number in range(ITEMS)
    ]
    return json.dumps({"user": {"id": draw.getrandbits(32), "age": draw.randrange(18, 90)}, "items": items})


def _features(user, item):
    amount = item["price"]["amount"]
    if not isinstance(amount, (int, float)) or amount < 0:
        raise ValueError(f"{item['id']}: a price of {amount!r}")
    history = item["history"]
    mean = sum(history) / len(history)
    return [
        math.log1p(amount),
        item["seller"]["rating"] / 5,
        len(item["title"].split()) / 10,
        mean / 100,
        math.sqrt(sum((value - mean) ** 2 for value in history) / len(history)) / 100,
        user["age"] / 100,
        *(float(tag in item["tags"]) for tag in TAGS),
        *(float(country == item["seller"]["country"]) for country in COUNTRIES),
    ]


def make(_folder):
    draw = numpy.random.default_rng(7)
    inner = draw.standard_normal((FEATURES, HIDDEN), dtype="float32")
    outer = draw.standard_normal(HIDDEN, dtype="float32") / 8
    requests = [_request(seed) for seed in range(CALLS)]

    def call(n):
        request = json.loads(requests[n])
        rows = [_features(request["user"], item) for item in request["items"]]
        inputs = numpy.array(rows, "float32")
        scores = 1 / (1 + numpy.exp(-(numpy.maximum(inputs @ inner, 0) @ outer)))
        answers = [
            {"id": item["id"], "score": score, "shown": score > 0.5, "reasons": sorted(item["tags"])}
            for item, score in zip(request["items"], scores.tolist(), strict=True)
        ]
        answers.sort(key=lambda answer: (-answer["score"], answer["id"]))
        return digest(json.dumps({"user": request["user"]["id"], "items": answers}, indent=1).encode())

    return call
