"""Requests of HTTP/1.1, byte by byte: those that a server must serve, and those that a proxy before it may understand in another way.

`python http1.py PORT REPORT` sends them to an application of `echo.py` and writes each request's result as JSON.
"""

import json
import socket
import sys

#: Behind each request: whether the server takes it from what it has taken for the end of the first.
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

#: The head of a request whose body comes in chunks.
CHUNKED = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

#: Requests that no server may serve, or that two may understand in two ways (RFC 9112, 2.2, 3.2, 5.1, 5.2, 6.1, 6.3, 7.1).
REFUSED = {
    "length and chunks": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "two equal lengths": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of different lengths": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 4\r\n\r\nabcd",
    "a length with a sign": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
    "a negative length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc",
    "a length in hexadecimal": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
    "a length with an underscore": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0_3\r\n\r\nabc",
    "a length of other digits": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \u00b3\r\n\r\nabc",
    "an empty length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
    "a length of 2**64 + 3": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551619\r\n\r\nabc",
    "a space before the colon of the length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
    "a space before the colon of the coding": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a tab before the colon": "POST / HTTP/1.1\r\nHost: a\r\nX-A\t: b\r\nContent-Length: 0\r\n\r\n",
    "another coding before chunked": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "another coding behind chunked": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding in quotes": 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "a coding with a vertical tab": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "two headers of codings": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a folded coding": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "chunks of HTTP/1.0": "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk's size that is no number": CHUNKED + "zz\r\nabc\r\n0\r\n\r\n",
    "a chunk's size with a prefix": CHUNKED + "0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk's size with an underscore": CHUNKED + "0_3\r\nabc\r\n0\r\n\r\n",
    "a chunk that is longer than its size": CHUNKED + "3\r\nabcde\r\n0\r\n\r\n",
    "a negative chunk": CHUNKED + "-1\r\n\r\n",
    "a chunk of 2**64 + 3 bytes": CHUNKED + "10000000000000003\r\nabc\r\n0\r\n\r\n",
    "an empty chunk's size": CHUNKED + "\r\n\r\n",
    "a chunk's size that ends in LF": CHUNKED + "3\nabc\r\n0\r\n\r\n",
    "a chunk's size that ends in CR": CHUNKED + "3\rabc\r\n0\r\n\r\n",
    "a chunk that ends in LF": CHUNKED + "3\r\nabc\n0\r\n\r\n",
    "a chunk's extension that ends in LF": CHUNKED + "3;a\nabc\r\n0\r\n\r\n",
    "a folded header": "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n folded\r\n\r\n",
    "a folded first header": "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "lines that end in LF": "GET / HTTP/1.1\nHost: a\n\n",
    "a header that ends in LF": "GET / HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n",
    "a head that ends in LF": "GET / HTTP/1.1\r\nHost: a\r\n\n",
    "a CR within a header": "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rX-B: c\r\n\r\n",
    "a NUL within a header": "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n",
    "a header without a colon": "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
    "a header without a name": "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    "a header's name with a space": "GET / HTTP/1.1\r\nHost: a\r\nX A: b\r\n\r\n",
    "a header's name with a bracket": "GET / HTTP/1.1\r\nHost: a\r\nX[A]: b\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\n\r\n",
    "two hosts": "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a host with a space": "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "a host with a path": "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a host with a user": "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "a port that is no number": "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
    "two spaces in the request's line": "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space in the target": "GET /li st HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tab in the request's line": "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target that is no path": "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
    "a control character in the target": "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method with a bracket": "G[T / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no version": "GET /\r\nHost: a\r\n\r\n",
    "another major version": "GET / HTTP/3.7\r\nHost: a\r\n\r\n",
    "a version in lower case": "GET / http/1.1\r\nHost: a\r\n\r\n",
    "a version with more digits": "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
}

#: The method and the body that the application gets.
SERVED = {
    "a simple request": ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET", ""),
    "a body": ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "POST", "abc"),
    "a body of GET": ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "GET", "abc"),
    "an empty body": ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST", ""),
    "a length with zeros": ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabc", "POST", "abc"),
    "chunks": (CHUNKED + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "POST", "abcde"),
    "a coding in capitals": ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", "POST", ""),
    "a chunk's size in capitals": (CHUNKED + "A\r\n0123456789\r\n0\r\n\r\n", "POST", "0123456789"),
    "a chunk's size with zeros": (CHUNKED + "0003\r\nabc\r\n000\r\n\r\n", "POST", "abc"),
    "a chunk's extension": (CHUNKED + "3;a=b\r\nabc\r\n0;c=\"d\"\r\n\r\n", "POST", "abc"),
    "trailers": (CHUNKED + "3\r\nabc\r\n0\r\nX-A: b\r\n\r\n", "POST", "abc"),
    "white space around a value": ("GET / HTTP/1.1\r\nHost: a\r\nX-A: \t b \t\r\n\r\n", "GET", ""),
    "no white space before a value": ("GET / HTTP/1.1\r\nHost:a\r\nX-A:b\r\n\r\n", "GET", ""),
    "an empty value": ("GET / HTTP/1.1\r\nHost: a\r\nX-A:\r\n\r\n", "GET", ""),
    "an empty host": ("GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET", ""),
    "a host with a port": ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET", ""),
    "a value of Latin-1": ("GET / HTTP/1.1\r\nHost: a\r\nX-A: \xe9\r\n\r\n", "GET", ""),
    "an absolute target": ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET", ""),
    "an empty line before the request": ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET", ""),
    "a method of its own": ("PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n", "PROPFIND", ""),
    "an expectation": ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "POST", "abc"),
    "a long header": ("GET / HTTP/1.1\r\nHost: a\r\nX-A: " + "b" * 16000 + "\r\n\r\n", "GET", ""),
    "many headers": ("GET / HTTP/1.1\r\nHost: a\r\n" + "".join(f"X-{n}: a\r\n" for n in range(90)) + "\r\n", "GET", ""),
}

#: Requests behind which the server closes the connection, and their number of answers.
CLOSED = {
    "the client closes": ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 1),
    "the client closes in capitals": ("GET / HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n", 1),
    "the client closes in a list": ("GET / HTTP/1.1\r\nHost: a\r\nConnection: a, close\r\n\r\n", 1),
    "HTTP/1.0": ("GET / HTTP/1.0\r\n\r\n", 1),
    "HTTP/1.0 that goes on": ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 2),
    "HEAD": ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 2),
    "two requests at once": ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 3),
}


def exchange(port, request):
    """All that the server answers until it closes, and whether it does."""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.settimeout(4)
        received = b""
        try:
            stream.sendall(request)
            while piece := stream.recv(1 << 16):
                received += piece
        except TimeoutError:
            return received, False
        except OSError:
            pass
        return received, True


def answers(received):
    """The statuses and the bodies in order. An interim response is none of them."""
    found = []
    while received:
        head, end, received = received.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        if not end or not lines[0].startswith(b"HTTP/1."):
            raise ValueError(f"no answer of HTTP: {head[:60]!r}")
        status = int(lines[0].split()[1])
        if status == 100:
            continue
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if b": " in line)
        length = int(headers.get(b"content-length", len(received)))
        body = received[:length]
        if b"chunked" in headers.get(b"transfer-encoding", b""):
            body, received = chunks(received)
        elif body.startswith(b"HTTP/1."):
            # The answer to HEAD has no body, and the next one follows.
            body = b""
        else:
            received = received[length:]
        found.append((status, body))
    return found


def chunks(received):
    body = b""
    while True:
        size, _, received = received.partition(b"\r\n")
        size = int(size, 16)
        body += received[:size]
        received = received[size + 2 :]
        if not size:
            return body, received


def refused(port, request):
    received, is_closed = exchange(port, request.encode("latin-1") + NEXT)
    found = answers(received)
    if any(b"/next" in body for _, body in found):
        return f"failed: it serves what follows ({[status for status, _ in found]})"
    if found and not 400 <= found[0][0] < 600:
        return f"failed: it answers {found[0][0]}"
    if len(found) > 1:
        return f"failed: it answers {[status for status, _ in found]}"
    return "passed" if is_closed else "failed: the connection stays open"


def served(port, request, method, body):
    received, is_closed = exchange(port, request.encode("latin-1") + NEXT)
    found = answers(received)
    statuses = [status for status, _ in found]
    if statuses != [200, 200] or not is_closed:
        return f"failed: it answers {statuses}"
    seen = json.loads(found[0][1])
    if (seen["method"], seen["body"], seen["path"]) != (method, body, "/"):
        return f"failed: the application gets {seen['method']} {seen['path']} {seen['body']!r}"
    return "passed"


def closed(port, request, count):
    received, is_closed = exchange(port, request.encode("latin-1") + NEXT)
    statuses = [status for status, _ in answers(received)]
    if statuses != [200] * count:
        return f"failed: it answers {statuses}"
    return "passed" if is_closed else "failed: the connection stays open"


def main():
    port, report = int(sys.argv[1]), sys.argv[2]
    found = {}
    for kind, check, cases in (("refused", refused, REFUSED), ("served", served, SERVED), ("closed", closed, CLOSED)):
        for name, case in cases.items():
            arguments = case if isinstance(case, tuple) else (case,)
            try:
                found[f"{kind}: {name}"] = check(port, *arguments)
            except ValueError as error:
                found[f"{kind}: {name}"] = f"failed: {error}"
    with open(report, "w") as file:
        json.dump({"tests": found}, file)


if __name__ == "__main__":
    main()
