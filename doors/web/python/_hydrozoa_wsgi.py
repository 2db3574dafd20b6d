"""The side of WSGI (PEP 3333) that lies in a worker. The host calls `handle` once for a request, and keeps the request's number.

The host's functions: `read` gives bytes of the request's body, `reply` begins the response, `send` goes on with it, `finish` ends
it. `reply_file` is a response whose body is a file, which the host reads. They wait without the GIL.
"""

import io
import sys
from itertools import chain


class FileWrapper:
    """`wsgi.file_wrapper`: the blocks of a file."""

    def __init__(self, filelike, blksize=65536):
        self.filelike = filelike
        self.blksize = blksize
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def place(self):
        """The descriptor of a file that is read as it is, and the position in it; None for another one, whose blocks are read."""
        file = self.filelike
        is_buffered = type(file) is io.BufferedReader or type(file) is io.BufferedRandom
        if type(file.raw if is_buffered else file) is not io.FileIO or not file.readable():
            return None
        try:
            file.flush()
            return file.fileno(), file.tell()
        except OSError:
            # A pipe, a terminal.
            return None

    def __iter__(self):
        return self

    def __next__(self):
        if block := self.filelike.read(self.blksize):
            return block
        raise StopIteration


def handler(application, base, read, reply, send, finish, reply_file):
    """The function that answers a request."""

    class Body(io.RawIOBase):
        """A request's body that has not come whole."""

        def __init__(self, number):
            self._number = number

        def readable(self):
            return True

        def readinto(self, buffer):
            piece = read(self._number, len(buffer))
            buffer[: len(piece)] = piece
            return len(piece)

    class Exchange:
        __slots__ = ("number", "status", "headers", "began", "open")

        def __init__(self, number):
            self.number = number
            self.status = self.headers = None
            # Whether the head is sent, and whether the client wants more.
            self.began = False
            self.open = True

        def start_response(self, status, headers, exc_info=None):
            if exc_info is not None:
                try:
                    if self.began:
                        raise exc_info[1].with_traceback(exc_info[2])
                finally:
                    exc_info = None
            elif self.status is not None:
                raise AssertionError("start_response was called twice, the second time without exc_info")
            self.status, self.headers = status, headers
            return self.write

        def begin(self, piece, more):
            status, headers = self.status, self.headers
            if status is None:
                raise AssertionError("the application has not called start_response before its response's body")
            fields = "\n".join(chain.from_iterable(headers)).encode("latin-1")
            self.open = reply(self.number, status, fields, len(headers), piece, more)
            self.began = True

        def file(self, wrapper):
            """Has the host send a file. False if it has to be read here."""
            if self.began or self.status is None or (place := wrapper.place()) is None:
                return False
            fields = "\n".join(chain.from_iterable(self.headers)).encode("latin-1")
            return reply_file(self.number, self.status, fields, len(self.headers), *place)

        def write(self, piece):
            if not self.began:
                self.begin(piece, True)
            elif self.open and piece:
                self.open = send(self.number, piece)

    def handle(number, head, path, body):
        environ = base.copy()
        fields = head.split("\n")
        environ.update(zip(fields[::2], fields[1::2]))
        environ["PATH_INFO"] = path
        environ["wsgi.input"] = io.BufferedReader(Body(number), 65536) if body is None else io.BytesIO(body)
        environ["wsgi.errors"] = sys.stderr
        exchange = Exchange(number)
        pieces = application(environ, exchange.start_response)
        try:
            if type(pieces) is list or type(pieces) is tuple:
                piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                if exchange.began:
                    exchange.write(piece)
                else:
                    exchange.begin(piece, False)
                    return
            elif type(pieces) is FileWrapper and exchange.file(pieces):
                return
            else:
                for piece in pieces:
                    if piece:
                        exchange.write(piece)
                        if not exchange.open:
                            break
                if not exchange.began:
                    exchange.begin(b"", False)
                    return
            finish(number)
        finally:
            if (close := getattr(pieces, "close", None)) is not None:
                close()

    return handle


def base(script_name, multithread, multiprocess, software):
    """What is the same in each request."""
    return {
        "SCRIPT_NAME": script_name,
        "SERVER_SOFTWARE": software,
        "GATEWAY_INTERFACE": "CGI/1.1",
        "wsgi.version": (1, 0),
        "wsgi.multithread": multithread,
        "wsgi.multiprocess": multiprocess,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
        "wsgi.file_wrapper": FileWrapper,
    }
