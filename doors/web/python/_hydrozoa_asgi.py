"""The side of ASGI 3 that lies in a worker, on its event loop.

The host's functions: `receive` gives bytes of the request's body, or an awaitable of them; `reply` begins the response, and `send`
goes on with it: that gives None, an awaitable that waits until the client has read, or True if it has gone. `send_path` begins a
response whose body is a file, and gives an awaitable. `left` gives an awaitable
of the client's end.
"""

import asyncio
import contextvars
import os
from asyncio.base_events import _run_until_complete_cb

_VERSIONS = {"version": "3.0", "spec_version": "2.3"}
_VERSIONS_OF_SOCKETS = {"version": "3.0", "spec_version": "2.4"}
_DISCONNECT = {"type": "http.disconnect"}


class ClientGone(ConnectionResetError):
    """A message was sent to a WebSocket whose client has gone (ASGI 2.4, "Disconnected Client - send exception")."""


def _exchanges(receive_body, reply, send_body, send_path, left):
    """The class of requests with their responses."""

    class Exchange:
        __slots__ = ("body", "fields", "is_over", "is_read", "number", "status")

        def __init__(self, number, body):
            self.number = number
            # The whole body, or None where it comes in pieces.
            self.body = body
            self.is_read = False
            # The head, until the first piece of the body is sent with it.
            self.status = self.fields = None
            self.is_over = False

        async def receive(self):
            if self.is_read or self.is_over:
                if not self.is_over:
                    await left(self.number)
                return _DISCONNECT
            if self.body is not None:
                body, self.body, self.is_read = self.body, b"", True
                return {"type": "http.request", "body": body, "more_body": False}
            body = receive_body(self.number)
            if type(body) is not bytes:
                body = await body
            if body is None:
                self.is_read = True
                return _DISCONNECT
            self.is_read = not body
            return {"type": "http.request", "body": body, "more_body": not self.is_read}

        async def send(self, message):
            kind = message["type"]
            if kind == "http.response.body":
                if self.is_over:
                    raise RuntimeError("the response's body has ended already")
                body, more = message.get("body", b""), message.get("more_body", False)
                if self.fields is not None:
                    fields, self.fields = self.fields, None
                    waits = reply(self.number, self.status, b"\n".join(fields), len(fields), bytes(body), more)
                elif self.status is None:
                    raise RuntimeError("http.response.body was sent before http.response.start")
                else:
                    waits = send_body(self.number, bytes(body), more)
                self.is_over = not more
                if waits is True:
                    # The client has gone. The application hears it only if its other tasks go on.
                    await asyncio.sleep(0)
                elif waits is not None:
                    await waits
            elif kind == "http.response.start":
                if self.status is not None:
                    raise RuntimeError("http.response.start was sent twice")
                self.fields = [part for name, value in message.get("headers", ()) for part in (bytes(name), bytes(value))]
                self.status = message["status"]
            elif kind == "http.response.pathsend":
                if self.fields is None:
                    raise RuntimeError("http.response.pathsend was sent before http.response.start, or behind the body")
                await send_path(self.number, self.status, b"\n".join(self.fields), len(self.fields), os.fsencode(message["path"]))
                self.fields, self.is_over = None, True
            else:
                raise RuntimeError(f"a response has no message of the type {kind!r}")

        def check(self):
            """Raises an error unless the response is whole."""
            if self.status is None:
                raise RuntimeError("the application has returned without a response")
            if not self.is_over:
                raise RuntimeError("the application has returned before the end of its response")

    return Exchange


def _sockets(Response, take, accept, deliver):
    """The class of WebSockets, which are rejected by a `Response`."""

    class Socket:
        """A WebSocket. The host's functions: `take` gives a message or the client's end, `accept` decides, `deliver` sends."""

        __slots__ = ("has_closed", "is_accepted", "is_closed", "is_connected", "number", "response")

        def __init__(self, number):
            self.number = number
            # The response that rejects the client (ASGI, "Websocket Denial Response").
            self.response = None
            # It has closed the socket itself; or it or the client has.
            self.has_closed = self.is_closed = False
            self.is_connected = self.is_accepted = False

        async def receive(self):
            if not self.is_connected:
                self.is_connected = True
                return {"type": "websocket.connect"}
            event = take(self.number)
            if not isinstance(event, (str, bytes, tuple)):
                event = await event
            if isinstance(event, str):
                return {"type": "websocket.receive", "text": event}
            if isinstance(event, bytes):
                return {"type": "websocket.receive", "bytes": event}
            self.is_closed = True
            return {"type": "websocket.disconnect", "code": event[0], "reason": event[1]}

        async def send(self, message):
            kind = message["type"]
            waits = None
            if kind == "websocket.send":
                if not self.is_accepted:
                    raise RuntimeError("websocket.send was sent before websocket.accept")
                if self.has_closed:
                    raise RuntimeError("websocket.send was sent behind websocket.close")
                data = message.get("bytes")
                waits = deliver(self.number, message["text"] if data is None else bytes(data), None)
            elif kind == "websocket.accept":
                if self.is_accepted or self.is_closed:
                    raise RuntimeError("websocket.accept was sent behind another decision")
                fields = [bytes(part) for pair in message.get("headers") or () for part in pair]
                if (chosen := message.get("subprotocol")) is not None:
                    fields += [b"sec-websocket-protocol", chosen.encode("latin-1")]
                accept(self.number, b"\n".join(fields), len(fields))
                self.is_accepted = True
            elif kind == "websocket.close":
                if self.is_accepted:
                    reason = message.get("reason") or ""
                    if len(reason.encode()) > 123:
                        raise RuntimeError("the reason of websocket.close has more than 123 bytes (RFC 6455, 5.5)")
                    waits = deliver(self.number, reason, message.get("code", 1000))
                else:
                    accept(self.number, None, 0)
                self.has_closed = self.is_closed = True
            elif kind in ("websocket.http.response.start", "websocket.http.response.body"):
                if self.is_accepted or self.is_closed and self.response is None:
                    raise RuntimeError(f"{kind} was sent behind another decision")
                self.response = self.response or Response(self.number, b"")
                self.is_closed = True
                await self.response.send({**message, "type": kind.removeprefix("websocket.")})
            else:
                raise RuntimeError(f"a WebSocket has no message of the type {kind!r}")
            if waits is not None and waits is not True:
                waits = await waits
            if waits is True and kind == "websocket.send":
                raise ClientGone("the client of this WebSocket has gone")

    return Socket


def handler(application, root_path, state, receive_body, reply, senders, left, ended, of_sockets):
    """The function that begins to answer a request, on the event loop's thread and outside of any task."""
    Exchange = _exchanges(receive_body, reply, *senders, left)
    Socket = _sockets(Exchange, *of_sockets)
    # asyncio itself does not keep tasks alive.
    tasks = {}

    async def answer(number, version, method, scheme, path, raw_path, query, fields, client, server, body):
        traceback = None
        try:
            fields = fields.split(b"\n")
            scope = {
                "type": "http",
                "asgi": _VERSIONS,
                "http_version": version,
                "method": method,
                "scheme": scheme,
                "path": path,
                "raw_path": raw_path,
                "query_string": query,
                "root_path": root_path,
                "headers": list(zip(fields[::2], fields[1::2])),
                "client": _address(client),
                "server": _address(server),
                "state": state.copy(),
                "extensions": {"http.response.pathsend": {}},
            }
            if method:
                exchange = Exchange(number, body)
                await application(scope, exchange.receive, exchange.send)
                exchange.check()
            else:
                socket = Socket(number)
                await application(_of_socket(scope), socket.receive, socket.send)
        except asyncio.CancelledError:
            # The interpreter ends.
            raise
        except ClientGone:
            # The application has nothing to do any more.
            pass
        except BaseException as error:
            traceback = _traceback(error)
        finally:
            tasks.pop(number, None)
            try:
                ended(number, path, traceback)
            except (SystemError, SystemExit):
                # The host takes no calls of an interpreter that ends.
                pass

    create_task = None

    def begin(number, *values):
        nonlocal create_task
        if create_task is None:
            # Once, since CPython up to 3.11 asks the kernel for the process at each look.
            create_task = asyncio.get_running_loop().create_task
        # No request inherits what another one has set.
        task = contextvars.Context().run(create_task, answer(number, *values))
        if not task.done():
            tasks[number] = task

    return begin


def _of_socket(scope):
    """The scope of a WebSocket, of that of its request."""
    del scope["method"]
    scope["asgi"] = _VERSIONS_OF_SOCKETS
    scope["type"] = "websocket"
    scope["extensions"] = {"websocket.http.response": {}}
    scope["scheme"] = "wss" if scope["scheme"] == "https" else "ws"
    offered = [value for name, value in scope["headers"] if name == b"sec-websocket-protocol"]
    scope["subprotocols"] = [name.strip() for name in b",".join(offered).decode("latin-1").split(",") if name.strip()]
    return scope


def _traceback(error):
    import traceback

    return "".join(traceback.format_exception(error))


def _address(text):
    """`HOST PORT`, or the path of a socket in the file system."""
    if not text:
        return None
    host, _, port = text.rpartition(" ")
    return (host, int(port)) if host else (text, None)


def event_loop(name):
    """A new event loop, or None for asyncio's."""
    if name == "asyncio":
        return None
    try:
        import uvloop
    except ImportError as error:
        if name == "uvloop":
            from _hydrozoa_web import Refused

            raise Refused(f"--loop uvloop: {error}: install uvloop, or use --loop asyncio") from None
        return None
    return uvloop.new_event_loop()


async def beat():
    """Shows that the loop goes on."""


async def _main():
    """The task that looks to anyio as that of `asyncio.run`, as long as the loop lasts.

    anyio (4, `find_root_task`) keeps its threads until such a task ends, which it knows by asyncio's own callback. Without one, each request has threads of
    its own.
    """
    task = asyncio.current_task()
    task.add_done_callback(_run_until_complete_cb)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        # It would stop the loop, in which others may yet end.
        task.remove_done_callback(_run_until_complete_cb)


class Lifespan:
    """The application's start and end."""

    def __init__(self, application, mode):
        self._application = application
        self._mode = mode
        self.state = {}
        self._task = None
        self._is_started = False

    async def start(self):
        """Raises what the application's start has raised."""
        self._main = contextvars.Context().run(asyncio.ensure_future, _main())
        if self._mode == "off":
            return
        self._events = asyncio.Queue()
        self._answer = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._run())
        # asyncio reports exceptions that nobody has taken.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await self._ask("startup")

    async def end(self):
        if self._is_started and not self._task.done():
            self._answer = asyncio.get_running_loop().create_future()
            await self._ask("shutdown")

    async def _ask(self, kind):
        self._events.put_nowait({"type": f"lifespan.{kind}"})
        await asyncio.wait({self._task, self._answer}, return_when=asyncio.FIRST_COMPLETED)
        if self._answer.done():
            if (text := self._answer.result()) is not None:
                raise RuntimeError(f"lifespan.{kind}.failed: {text}" if text else f"lifespan.{kind}.failed")
            self._is_started = True
        elif kind == "startup" and self._mode == "on" and self._task.exception() is None:
            raise RuntimeError("the application has ended its lifespan before it had started (--lifespan on)")
        elif (error := self._task.exception()) is not None and (kind == "shutdown" or self._mode == "on"):
            raise error

    async def _run(self):
        scope = {"type": "lifespan", "asgi": _VERSIONS, "state": self.state}
        await self._application(scope, self._events.get, self._send)

    async def _send(self, message):
        kind = message["type"]
        if kind.endswith(".complete"):
            text = None
        elif kind.endswith(".failed"):
            text = message.get("message", "")
        else:
            raise RuntimeError(f"a lifespan has no message of the type {kind!r}")
        if not self._answer.done():
            self._answer.set_result(text)
