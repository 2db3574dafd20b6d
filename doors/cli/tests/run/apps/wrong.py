"""Applications of WSGI that break its rules, each by a path."""

import sys


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/raise":
        raise LookupError("raised on purpose")
    if path == "/raise-in-pieces":
        start_response("200 OK", [])
        return raising()
    if path == "/late":
        start_response("200 OK", [])
        return late(start_response)
    if path == "/early":
        try:
            start_response("200 OK", [])
            raise LookupError("before the body")
        except LookupError:
            start_response("503 Sorry", [], sys.exc_info())
            return [b"sorry"]
    if path == "/feed":
        start_response("200 OK", [("X-A", "a\r\nSet-Cookie: b=c")])
    if path == "/return":
        start_response("200 OK", [("X-A", "a\rb")])
    if path == "/name":
        start_response("200 OK", [("X A", "c")])
    if path == "/feed-in-status":
        start_response("200 OK\r\nSet-Cookie: b=c", [])
    if path == "/hop":
        start_response("200 OK", [("Connection", "close")])
    if path == "/transfer":
        start_response("200 OK", [("Transfer-Encoding", "chunked")])
    if path == "/status":
        start_response("OK", [])
    if path == "/unicode":
        start_response("200 OK", [("X-A", "\u20ac")])
    if path == "/twice":
        start_response("200 OK", [])
        start_response("200 OK", [])
    if path == "/short":
        start_response("200 OK", [("Content-Length", "10")])
        return [b"abc"]
    if path == "/short-in-pieces":
        start_response("200 OK", [("Content-Length", "10")])
        return iter([b"abc", b"def"])
    if path == "/long":
        start_response("200 OK", [("Content-Length", "3")])
        return iter([b"ab", b"cdef"])
    if path == "/text":
        start_response("200 OK", [])
        return ["text"]
    if path == "/none":
        return []
    if path == "/exit":
        sys.exit(3)
    if path == "/right":
        start_response("200 OK", [])
        return [b"right"]
    return [b"x"]


def raising():
    yield b"begun"
    raise LookupError("raised in the body")


def late(start_response):
    yield b"begun"
    try:
        raise LookupError("behind the head")
    except LookupError:
        start_response("500 Sorry", [], sys.exc_info())
