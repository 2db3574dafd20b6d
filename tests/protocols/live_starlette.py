"""Starlette's own tests, whose applications the server serves: its TestClient sends requests to the server."""

import contextlib
import itertools
import socket

import driver
import httpx2 as httpx
import starlette.testclient as testclient
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.sync.client import connect

numbers = itertools.count(1)

#: Headers of a response that are not the application's.
SERVERS_OWN = {
    b"date", b"server", b"connection", b"upgrade", b"transfer-encoding", b"sec-websocket-accept", b"sec-websocket-protocol",
    b"sec-websocket-extensions",
}

#: Headers of a request for a WebSocket that the client makes itself.
CLIENTS_OWN = {"host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol"}


def run():
    testclient._TestClientTransport = Transport
    # The first file tests the client itself, whose inner parts are replaced, the other one a package that is not installed.
    left_out = ["--ignore=tests/test_testclient.py", "--ignore=tests/middleware/test_opentelemetry.py"]
    return driver.pytest([], ["tests", *left_out, "-k", "not trio", "-W", "ignore"])


class Transport(httpx.BaseTransport):
    """Sends the client's requests to the server."""

    def __init__(self, app, portal_factory, raise_server_exceptions=True, root_path="", *, client, app_state):
        self.app = app
        self.raises = raise_server_exceptions
        self.root_path = root_path
        self.state = app_state
        self.http = httpx.HTTPTransport()

    def close(self):
        self.http.close()

    @contextlib.contextmanager
    def slot(self):
        key = str(next(numbers))
        slot = driver.Slot(self.app, self.state, self.root_path or None)
        driver.applications[key] = slot
        try:
            yield key, slot
        finally:
            del driver.applications[key]

    def handle_request(self, request):
        if request.url.scheme in ("ws", "wss"):
            raise testclient._Upgrade(Session(self, request))
        with self.slot() as (key, slot):
            headers = [*request.headers.raw, (driver.KEY.encode(), key.encode())]
            url = request.url.copy_with(scheme="http", host="127.0.0.1", port=driver.PORT)
            sent = httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)
            try:
                response = self.http.handle_request(sent)
                body = b"".join(response.stream)
            except httpx.TransportError:
                if self.raises and slot.done.wait(5) and slot.error:
                    raise slot.error from None
                raise
            slot.done.wait(5)
            if self.raises and slot.error:
                raise slot.error
        headers = [pair for pair in response.headers.raw if pair[0].lower() not in SERVERS_OWN]
        return httpx.Response(response.status_code, headers=headers, stream=httpx.ByteStream(body), request=request)


class Session:
    """A WebSocket of a client, in the words of the client of Starlette."""

    def __init__(self, transport, request):
        self.transport = transport
        self.request = request
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            key, self.slot = stack.enter_context(self.transport.slot())
            request = self.request
            own = ("host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol")
            headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in own]
            protocols = request.headers.get("sec-websocket-protocol")
            path = request.url.raw_path.decode()
            try:
                self.socket = connect(
                    f"ws://{request.url.netloc.decode()}{path}",
                    sock=socket.create_connection(("127.0.0.1", driver.PORT)),
                    additional_headers=[*headers, (driver.KEY, key)],
                    subprotocols=[one.strip() for one in protocols.split(",")] if protocols else None,
                    user_agent_header=None,
                    proxy=None,
                    open_timeout=10,
                    close_timeout=5,
                )
            except (InvalidHandshake, InvalidMessage) as error:
                self.failed(error)
            stack.callback(self.close)
            self.accepted_subprotocol = self.socket.subprotocol
            response = self.socket.response.headers.raw_items()
            self.extra_headers = [(name.lower().encode(), value.encode()) for name, value in response]
            self.extra_headers = [pair for pair in self.extra_headers if pair[0] not in SERVERS_OWN]
            self.stack = stack.pop_all()
        return self

    def failed(self, error):
        self.slot.done.wait(5)
        if self.slot.error:
            raise self.slot.error from None
        if not isinstance(error, InvalidStatus):
            raise error
        response = error.response
        # A server answers a close before the acceptance with 403 and words of its own (ASGI, "Close").
        if "websocket.http.response.start" not in self.slot.sent:
            raise testclient.WebSocketDisconnect(code=1000)
        headers = [(name, value) for name, value in response.headers.raw_items() if name.lower().encode() not in SERVERS_OWN]
        raise testclient.WebSocketDenialResponse(
            status_code=response.status_code, headers=headers, content=bytes(response.body or b"")
        )

    def __exit__(self, kind, error, trace):
        self.stack.close()
        if self.slot.done.wait(5) and self.slot.error and error is None:
            raise self.slot.error

    def send(self, message):
        kind = message["type"]
        if kind == "websocket.receive":
            data = message.get("bytes")
            self.socket.send(message["text"] if data is None else data)
        elif kind == "websocket.disconnect":
            self.close(message.get("code", 1000), message.get("reason"))

    def send_text(self, data):
        self.socket.send(data)

    def send_bytes(self, data):
        self.socket.send(data)

    send_json = testclient.WebSocketTestSession.send_json
    receive_text = testclient.WebSocketTestSession.receive_text
    receive_bytes = testclient.WebSocketTestSession.receive_bytes
    receive_json = testclient.WebSocketTestSession.receive_json
    _raise_on_close = testclient.WebSocketTestSession._raise_on_close

    def close(self, code=1000, reason=None):
        self.socket.close(code, reason or "")

    def receive(self):
        try:
            message = self.socket.recv(timeout=10)
        except ConnectionClosed as closed:
            frame = closed.rcvd
            if self.slot.done.wait(2) and self.slot.error:
                raise self.slot.error from None
            code, reason = (frame.code, frame.reason) if frame else (1006, "")
            return {"type": "websocket.close", "code": code, "reason": reason}
        kind = "text" if isinstance(message, str) else "bytes"
        return {"type": "websocket.send", kind: message}
