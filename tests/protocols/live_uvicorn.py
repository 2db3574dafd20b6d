"""Uvicorn's own tests of WebSockets and of HTTP/1.1, against whichever server this worker belongs to.

Its tests of WebSockets start a server for each application and connect to its port. Here they get this server, which serves the
application. Its tests of HTTP/1.1 feed a protocol with bytes and look at the bytes that it writes. Here the bytes go to this
server, and are those that it sends.
"""

import asyncio
import contextlib
import functools
import inspect
import socket

import driver

#: Parameters of the tests that choose uvicorn's own implementations, of which one run is enough.
CHOSEN = "not httptools and not wsproto and not zttp"


#: Seconds for a test. One that waits for what never comes would hold up all others.
PATIENCE = 20


def run():
    arguments = ["tests/protocols/test_websocket.py", "tests/protocols/test_http.py", "-k", CHOSEN]
    return driver.pytest([Live()], [*arguments, "-W", "ignore", "-o", "addopts="])


class Live:
    """A plug-in that replaces how the tests get a server."""

    def pytest_collection_modifyitems(self, items):
        for item in items:
            if inspect.iscoroutinefunction(item.obj):
                item.obj = limited(item.obj)
        for module in {item.module for item in items}:
            if hasattr(module, "run_server"):
                module.run_server = self.run_server
            if hasattr(module, "get_connected_protocol"):
                module.get_connected_protocol = self.get_connected_protocol

    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.argname == "unused_tcp_port":
            fixturedef.cached_result = (driver.PORT, fixturedef.cache_key(request), None)
            return driver.PORT

    @contextlib.asynccontextmanager
    async def run_server(self, config, sockets=None):
        config.load()
        slot = driver.Slot(config.loaded_app)
        driver.applications[driver.ONLY] = slot
        try:
            yield Ended()
        finally:
            # As the end of uvicorn does.
            await asyncio.to_thread(slot.wait_until_idle)
            del driver.applications[driver.ONLY]

    def get_connected_protocol(self, app, http_protocol_cls, lifespan=None, **kwargs):
        return Protocol(app, kwargs.get("root_path"))


def limited(test):
    @functools.wraps(test)
    async def run(*arguments, **named):
        async with asyncio.timeout(PATIENCE):
            await test(*arguments, **named)

    return run


class Ended:
    """Tests that end their server cannot do so here."""

    async def shutdown(self):
        raise NotImplementedError("this server goes on")


class Protocol:
    """A connection to the server, in the words of a test's connected protocol."""

    def __init__(self, app, root_path):
        self.slot = driver.Slot(app, root_path=root_path)
        driver.applications[driver.ONLY] = self.slot
        self.transport = Transport(socket.create_connection(("127.0.0.1", driver.PORT)))
        self.loop = self
        self.timeout_keep_alive_task = None

    def data_received(self, data):
        self.transport.send(data)

    def eof_received(self):
        self.transport.socket.shutdown(socket.SHUT_WR)

    def connection_lost(self, error):
        self.transport.socket.close()

    async def run_one(self):
        await asyncio.to_thread(self.transport.settle, 3.0)


class Transport:
    """The bytes that the server has sent."""

    def __init__(self, socket):
        self.socket = socket
        self.received = b""
        self.has_ended = False

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            self.has_ended = True

    def settle(self, patience):
        """Reads until nothing more comes."""
        self.socket.settimeout(patience)
        while not self.has_ended:
            try:
                piece = self.socket.recv(1 << 16)
            except TimeoutError:
                return
            except OSError:
                piece = b""
            self.has_ended = not piece
            self.received += piece
            self.socket.settimeout(0.3)

    @property
    def buffer(self):
        self.settle(0.3)
        return self.received

    def is_closing(self):
        self.settle(0.3)
        return self.has_ended

    def clear_buffer(self):
        self.settle(0.3)
        self.received = b""
