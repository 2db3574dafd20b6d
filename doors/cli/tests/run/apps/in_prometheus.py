"""Applications that count with prometheus_client."""

import ctypes

from prometheus_client import Counter, Gauge, Histogram, Info, Summary

requests = Counter("shop_requests", "Requests.", ["path"])
loaded = Gauge("shop_loaded", "Whether it is loaded.")
sizes = Histogram("shop_sizes", "Sizes.", buckets=(1, 10))
times = Summary("shop_times", "Times.")
version = Info("shop", "The version.")
loaded.set(1)
version.info({"version": "1"})


def count(path):
    requests.labels(path).inc()
    sizes.observe(5)
    times.observe(0.5)


def application(environ, start_response):
    path = environ["PATH_INFO"]
    count(path)
    if path == "/stuck":
        # With the GIL.
        ctypes.PyDLL(None).sleep(4)
    start_response("200 OK", [])
    return [b"counted"]


async def asynchronous(scope, receive, send):
    assert scope["type"] == "http"
    count(scope["path"])
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"counted"})
