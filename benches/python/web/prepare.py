"""Has an application make its data, and writes its requests with the bodies that plain python computes: prepare.py wsgi|asgi MODULE FOLDER."""

import asyncio
import importlib
import io
import os
import sys
import wsgiref.util


def wsgi(app, method, path, body):
    environ = {"REQUEST_METHOD": method, "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    environ["PATH_INFO"], _, environ["QUERY_STRING"] = path.partition("?")
    wsgiref.util.setup_testing_defaults(environ)
    statuses = []
    pieces = app(environ, lambda status, headers, *_: statuses.append(status))
    answer = b"".join(pieces)
    if hasattr(pieces, "close"):
        pieces.close()
    return int(statuses[-1].split()[0]), answer


def asgi(app, method, path, body):
    path, _, query = path.partition("?")
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"}
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope |= {"path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "headers": headers}
    messages = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        messages.append(message)

    asyncio.run(app(scope, receive, send))
    return messages[0]["status"], b"".join(message.get("body", b"") for message in messages[1:])


def main():
    interface, name, folder = sys.argv[1:]
    module = importlib.import_module(name)
    if hasattr(module, "prepare"):
        module.prepare()
    call = {"wsgi": wsgi, "asgi": asgi}[interface]
    os.makedirs(folder, exist_ok=True)
    for number, (method, path, body) in enumerate(module.REQUESTS):
        status, answer = call(module.app, method, path, body)
        assert status == 200, (method, path, status, answer)
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n"
        if method == "POST":
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        for kind, data in (("request", f"{head}\r\n".encode() + body), ("body", answer)):
            with open(os.path.join(folder, f"{number}.{kind}"), "wb") as file:
                file.write(data)


main()
