"""Runs a test suite inside a worker of a web server, and serves its applications by that server.

A test makes an application, often as a closure, and asks it. Here the test runs on a thread of the server's worker, and the server
serves the application: `app` (ASGI) and `application` (WSGI) pass each request on to the application of the test. The request
travels over a socket, through the server, although both ends are in one process.

The environment: PROTOCOLS_PORT is the server's port, PROTOCOLS_SUITE a module beside this one, PROTOCOLS_SOURCES the unpacked
sources of the suite, and PROTOCOLS_REPORT the file that gets each test's result as JSON.
"""

import importlib
import json
import os
import socket
import sys
import threading
import time
import traceback

PORT = int(os.environ["PROTOCOLS_PORT"])

#: The applications of tests by the key that their clients send, and that of a test that has only one.
applications = {}
KEY = "x-protocols-application"
ONLY = ""


class Slot:
    """An application of a test."""

    def __init__(self, application, state=None, root_path=None):
        self.application = application
        self.state = state
        self.root_path = root_path
        self.error = None
        #: The kinds of messages that it has sent.
        self.sent = set()
        self.running = 0
        self.done = threading.Event()

    def wait_until_idle(self, patience=5):
        """Until no call of the application runs any more."""
        deadline = time.monotonic() + patience
        while self.running and time.monotonic() < deadline:
            time.sleep(0.01)


def key_of(headers):
    for name, value in headers:
        if name.decode("latin-1").lower() == KEY:
            return value.decode("latin-1")
    return ONLY


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        # The servers' own lifespan is not a test's.
        raise RuntimeError("no lifespan")
    slot = applications.get(key_of(scope["headers"]))
    if slot is None:
        await absent(scope, send)
        return
    scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != KEY.encode()]
    if slot.state is not None:
        scope["state"] = slot.state.copy()
    if slot.root_path is not None:
        scope["root_path"] = slot.root_path
    async def noted(message):
        slot.sent.add(message["type"])
        await send(message)

    slot.running += 1
    try:
        await slot.application(scope, receive, noted)
    except BaseException as error:
        slot.error = error
        raise
    finally:
        slot.running -= 1
        slot.done.set()


async def absent(scope, send):
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"no test is running"})


def application(environ, start_response):
    slot = applications.get(ONLY)
    if slot is None:
        start_response("200 OK", [])
        return [b"no test is running"]
    return slot.application(environ, start_response)


class Results:
    """A plug-in of pytest that takes down how each test ended."""

    def __init__(self):
        self.tests = {}

    def pytest_runtest_makereport(self, item, call):
        error = call.excinfo
        if error is None:
            if call.when == "call":
                self.tests.setdefault(item.nodeid, "passed")
        elif error.typename == "Skipped":
            self.tests[item.nodeid] = "skipped"
        elif not self.tests.get(item.nodeid, "").startswith("failed"):
            words = error.exconly().strip().splitlines()
            self.tests[item.nodeid] = "failed: " + " | ".join(words[:3])


def wait_for_the_server():
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", PORT), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("the server does not listen")


def run():
    report = os.environ["PROTOCOLS_REPORT"]
    try:
        wait_for_the_server()
        suite = importlib.import_module(os.environ["PROTOCOLS_SUITE"])
        sources = os.environ["PROTOCOLS_SOURCES"]
        os.chdir(sources)
        sys.path.insert(0, sources)
        found = {"tests": suite.run()}
    except BaseException:
        found = {"error": traceback.format_exc()}
    with open(report + ".new", "w") as file:
        json.dump(found, file)
    os.replace(report + ".new", report)


def pytest(plugins, arguments):
    import pytest

    results = Results()
    pytest.main(["-p", "no:cacheprovider", "-q", "--tb=native", *arguments], plugins=[results, *plugins])
    return results.tests


if os.environ.get("PROTOCOLS_SUITE"):
    threading.Thread(target=run, name="tests", daemon=True).start()
