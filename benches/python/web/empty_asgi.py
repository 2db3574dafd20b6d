"""An application of ASGI that does nothing."""

import worker

REQUESTS = [("GET", "/", b"")]
BODY = b"a few words, which are the same in each response\n"


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    headers = [
        (b"content-type", b"text/plain"),
        (b"content-length", str(len(BODY)).encode()),
        (b"x-worker", worker.name().encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})
