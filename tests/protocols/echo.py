"""Applications that answer with what they get."""

import json


async def app(scope, receive, send):
    """Messages of a WebSocket go back. A request's answer says what the server has understood."""
    if scope["type"] == "websocket":
        await messages(receive, send)
    elif scope["type"] == "http":
        body, more = b"", True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                return
            body += event.get("body", b"")
            more = event.get("more_body", False)
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
        seen = {"method": scope["method"], "path": scope["path"], "body": body.decode("latin-1"), "headers": headers}
        answer = json.dumps(seen).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": answer})


async def messages(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        data = event.get("bytes")
        message = {"text": event["text"]} if data is None else {"bytes": data}
        await send({"type": "websocket.send", **message})


def application(environ, start_response):
    body = environ["wsgi.input"].read()
    headers = [
        [name.removeprefix("HTTP_").replace("_", "-").lower(), value]
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in ("CONTENT_LENGTH", "CONTENT_TYPE")
    ]
    seen = {
        "method": environ["REQUEST_METHOD"],
        "path": environ["PATH_INFO"],
        "body": body.decode("latin-1"),
        "headers": headers,
    }
    answer = json.dumps(seen).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
