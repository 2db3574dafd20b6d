"""An application of WSGI with pandas: a request filters a frame of 20,000 rows, and groups what is left."""

import urllib.parse

import numpy
import pandas
import worker

ROWS = 20_000
REQUESTS = [("GET", f"/sales?year={year}", b"") for year in range(2010, 2020)]

_draw = numpy.random.default_rng(1)
frame = pandas.DataFrame(
    {
        "year": _draw.integers(2010, 2020, ROWS),
        "country": pandas.Categorical.from_codes(_draw.integers(0, 6, ROWS), list("ABCDEF")),
        "kind": _draw.choice(["book", "record", "picture"], ROWS),
        "amount": _draw.integers(1, 1000, ROWS),
        "price": _draw.integers(1, 100_000, ROWS) / 100,
    }
)


def app(environ, start_response):
    year = int(urllib.parse.parse_qs(environ["QUERY_STRING"])["year"][0])
    groups = frame[frame["year"] == year].groupby(["country", "kind"], observed=True)
    table = groups.agg(amount=("amount", "sum"), price=("price", "mean"), sales=("price", "size")).round(2)
    body = table.reset_index().to_json(orient="records").encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("x-worker", worker.name())]
    start_response("200 OK", headers)
    return [body]
