"""An application of WSGI for the tests, as it is and under the validator of the standard library."""

import gzip
import json
import os
import sys
import threading
import time
from wsgiref.validate import validator

closed = 0
served = 0
kept = []
opened = []


class Pieces:
    """An iterable that counts its ends."""

    def __init__(self, pieces):
        self._pieces = iter(pieces)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._pieces)

    def close(self):
        global closed
        closed += 1


def body(environ):
    stream = environ["wsgi.input"]
    while piece := stream.read(65536):
        yield piece


def show(environ):
    return {name: value for name, value in environ.items() if isinstance(value, (str, bool, tuple))}


def application(environ, start_response):
    global served
    served += 1
    path = environ["PATH_INFO"]
    text = [("Content-Type", "text/plain")]
    if path == "/environ":
        piece = json.dumps(show(environ)).encode()
        start_response("200 OK", [*text, ("Content-Length", str(len(piece)))])
        return [piece]
    if path == "/echo":
        start_response("200 OK", text)
        return Pieces(body(environ))
    if path == "/count":
        count = sum(map(len, body(environ)))
        start_response("200 OK", text)
        return [str(count).encode()]
    if path == "/lines":
        stream = environ["wsgi.input"]
        read = [stream.readline(), stream.readline(), *stream]
        start_response("200 OK", text)
        return [repr(read).encode()]
    if path == "/write":
        write = start_response("200 OK", text)
        write(b"written, ")
        return [b"returned"]
    if path == "/pieces":
        start_response("200 OK", text)
        return Pieces([b"one", b"", b" two", b" three"])
    if path == "/list":
        start_response("200 OK", text)
        return [b"one", b" two"]
    if path == "/file":
        start_response("200 OK", text)
        return environ["wsgi.file_wrapper"](open(__file__, "rb"), 100)
    if path == "/send":
        # From a position, perhaps with a length. Python has read further.
        position, length, name = environ["QUERY_STRING"].split(",")
        file = open(name, "rb")
        file.read(int(position))
        opened.append(file)
        start_response("200 OK", [*text, ("Content-Length", length)] if length else text)
        return environ["wsgi.file_wrapper"](file)
    if path == "/opened":
        start_response("200 OK", text)
        return [str(sum(not file.closed for file in opened)).encode()]
    if path == "/unusual":
        # Files whose descriptors are not what they read.
        reader, writer = os.pipe()
        with open(writer, "wb") as pipe, gzip.open(pipe, "wb") as zipped:
            zipped.write(b"through a pipe")
        start_response("200 OK", text)
        return environ["wsgi.file_wrapper"](gzip.open(open(reader, "rb"), "rb"))
    if path == "/empty":
        start_response("200 OK", [*text, ("Content-Length", "0")])
        return []
    if path in ("/204", "/304"):
        start_response(f"{path[1:]} Nothing", [])
        return []
    if path == "/closed":
        start_response("200 OK", text)
        return [str(closed).encode()]
    if path == "/endless":
        start_response("200 OK", text)
        return Pieces(b"x" * 65536 for _ in iter(int, 1))
    if path == "/who":
        start_response("200 OK", text)
        return [f"{os.getpid()} {id(sys.modules)} {threading.get_ident()} {served}".encode()]
    if path == "/sleep":
        time.sleep(float(environ["QUERY_STRING"]))
        start_response("200 OK", text)
        return [b"slept"]
    if path == "/spin":
        while True:
            pass
    if path == "/stuck":
        import ctypes

        ctypes.PyDLL(None).sleep(int(environ["QUERY_STRING"] or 3))
    if path == "/memory":
        bytearray(1 << 46)
    if path == "/crash":
        import ctypes

        ctypes.string_at(0)
    if path == "/keep":
        kept.append(bytes(int(environ["QUERY_STRING"])))
        start_response("200 OK", text)
        return [str(len(kept)).encode()]
    if path == "/variable":
        start_response("200 OK", text)
        return [os.environ.get("OF_THE_TEST", "none").encode()]
    start_response("404 Not Found", text)
    return [b"there is nothing here"]


validated = validator(application)


def create(word="none", *, number=0):
    def made(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"{word} {number}".encode()]

    return made
