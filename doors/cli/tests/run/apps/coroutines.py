"""An application of ASGI for the tests."""

import asyncio
import contextvars
import ctypes
import json
import time
import uuid

request = contextvars.ContextVar("request", default=None)
seen = []
kept = []
NAME = uuid.uuid4().hex.encode()


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(scope, receive, send)
    if scope["type"] == "websocket":
        return await socket(scope, receive, send)
    assert request.get() is None
    request.set(scope["path"])
    path = scope["path"]
    if path == "/scope":
        await answer(send, json.dumps({name: show(value) for name, value in scope.items()}).encode())
    elif path == "/echo":
        await send({"type": "http.response.start", "status": 200})
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": more})
    elif path == "/count":
        count, more = 0, True
        while more:
            message = await receive()
            count += len(message.get("body", b""))
            more = message.get("more_body", False)
        await answer(send, str(count).encode())
    elif path == "/sleep":
        await asyncio.sleep(float(scope["query_string"]))
        await answer(send, b"slept")
    elif path == "/loop":
        await answer(send, type(asyncio.get_running_loop()).__module__.encode())
    elif path == "/child":
        # It ends while others of this and of other workers run.
        child = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.2; echo $0; exit 3", scope["query_string"], stdout=asyncio.subprocess.PIPE)
        out, _ = await child.communicate()
        await answer(send, b"%d %s" % (child.returncode, out.strip()))
    elif path == "/name":
        await asyncio.sleep(float(scope["query_string"]))
        await answer(send, NAME)
    elif path == "/block":
        time.sleep(float(scope["query_string"]))
        await answer(send, b"blocked")
    elif path == "/stuck":
        ctypes.PyDLL(None).sleep(int(scope["query_string"] or 3))
    elif path == "/memory":
        bytearray(1 << 46)
    elif path == "/crash":
        ctypes.string_at(0)
    elif path == "/wait":
        # Until the client has gone.
        await receive()
        seen.append((await receive())["type"])
    elif path == "/endless":
        await send({"type": "http.response.start", "status": 200})
        gone = asyncio.ensure_future(left(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        seen.append("endless")
    elif path == "/seen":
        await answer(send, json.dumps(seen).encode())
    elif path == "/send":
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.pathsend", "path": scope["query_string"].decode()})
    elif path == "/keep":
        kept.append(bytes(int(scope["query_string"])))
        await answer(send, str(len(kept)).encode())
    elif path == "/raise":
        raise LookupError("raised on purpose")
    elif path == "/raise-in-pieces":
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        raise LookupError("raised in the body")
    elif path == "/nothing":
        return
    elif path == "/feed":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"b\r\nset-cookie: c")]})
        await send({"type": "http.response.body"})
    elif path == "/close":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"a, Close")]})
        await send({"type": "http.response.body", "body": b"closed"})
    elif path == "/receive-late":
        # The request's body was not asked for before the response, and is of no use behind it.
        await answer(send, b"answered")
        seen.append((await receive())["type"])
    elif path == "/state":
        scope["state"]["count"].append(1)
        scope["state"]["own"] = 1
        await answer(send, f"{len(scope['state']['count'])} {'word' in scope['state']}".encode())
    else:
        await answer(send, b"nothing", 404)


async def socket(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    path = scope["path"]
    if path == "/reject":
        return await send({"type": "websocket.close"})
    if path == "/deny":
        head = [(b"x-a", b"b"), (b"content-type", b"text/plain")]
        await send({"type": "websocket.http.response.start", "status": 401, "headers": head})
        await send({"type": "websocket.http.response.body", "body": b"not ", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"you"})
        return seen.append((await receive())["type"])
    if path == "/return-early":
        return
    if path == "/raise-early":
        raise LookupError("raised before the socket")
    chosen = scope["subprotocols"][-1] if scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": chosen, "headers": [(b"x-a", b"b")]})
    if path == "/scope":
        await send({"type": "websocket.send", "text": f"{scope['scheme']} {sorted(scope)}"})
    elif path == "/close":
        return await send({"type": "websocket.close", "code": 4001, "reason": "enough"})
    elif path == "/close-long":
        try:
            return await send({"type": "websocket.close", "code": 4001, "reason": "\u00e9" * 62})
        except RuntimeError:
            return await send({"type": "websocket.close", "code": 4002, "reason": "\u00e9" * 61 + "."})
    elif path == "/raise":
        raise LookupError("raised in a socket")
    elif path == "/return":
        return
    elif path == "/ticks":
        try:
            while True:
                await send({"type": "websocket.send", "text": "tick"})
                await asyncio.sleep(0.01)
        except OSError as error:
            seen.append(f"the ticks ended by {error!r}")
            raise
    elif path == "/close-and-send":
        await send({"type": "websocket.close"})
        return await send({"type": "websocket.send", "text": "late"})
    elif path == "/flood":
        while True:
            await send({"type": "websocket.send", "bytes": b"x" * 65536})
    while (message := await receive())["type"] == "websocket.receive":
        kind = "text" if message.get("text") is not None else "bytes"
        await send({"type": "websocket.send", kind: message[kind]})
    seen.append(f"{message['code']} {message['reason']}")


def show(value):
    return value if isinstance(value, (str, int, dict, type(None))) else repr(value)


async def left(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def answer(send, body, status=200):
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": body})


async def lifespan(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    scope["state"].update(word="started", count=[])
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    print("the application has ended", flush=True)
    await send({"type": "lifespan.shutdown.complete"})


async def failing(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    await send({"type": "lifespan.startup.failed", "message": "there is no database"})


async def without_lifespan(scope, receive, send):
    assert scope["type"] == "http"
    await answer(send, b"served")
