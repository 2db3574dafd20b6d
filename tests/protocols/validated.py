"""Applications of WSGI behind the validator of the standard library, wsgiref.validate, and requests to them.

A server has `application`. `python validated.py PORT REPORT` asks it, and writes each request's result as JSON.
"""

import http.client
import json
import sys

#: The requests: method, target, headers, body, and the answer's status and body. `None` for any body.
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nabc\r\n--b--\r\n'
)
MULTIPART = {"Content-Type": "multipart/form-data; boundary=b"}
REQUESTS = {
    "a request": ("GET", "/plain/", {}, None, 200, b"GET "),
    "a query": ("GET", "/plain/?a=%20b", {}, None, 200, b"GET a=%20b"),
    "HEAD": ("HEAD", "/plain/", {}, None, 200, b""),
    "OPTIONS": ("OPTIONS", "/plain/", {}, None, 200, b"OPTIONS "),
    "a body": ("POST", "/plain/read", {}, b"one\ntwo\nthree", 200, b"one\ntwo\nthree"),
    "a body by lines": ("POST", "/plain/lines", {}, b"one\ntwo\nthree", 200, b"[b'one\\n', b'two\\n', b'three']"),
    "a body by readline": ("POST", "/plain/readline", {}, b"one\ntwo\nthree", 200, b"[b'one\\n', b'two\\n', b'three']"),
    "a body by readlines": ("POST", "/plain/readlines", {}, b"one\ntwo", 200, b"[b'one\\n', b'two']"),
    "a body that is not read": ("POST", "/plain/", {}, b"x" * 100000, 200, b"POST "),
    "a large body": ("POST", "/plain/size", {}, b"x" * 3000000, 200, b"3000000"),
    "chunks": ("POST", "/plain/read", {}, [b"one\n", b"two"], 200, b"one\ntwo"),
    "no content": ("GET", "/plain/empty", {}, None, 204, b""),
    "not modified": ("GET", "/plain/unmodified", {}, None, 304, b""),
    "write": ("GET", "/plain/write", {}, None, 200, b"written and returned"),
    "pieces": ("GET", "/plain/pieces", {}, None, 200, b"0,1,2,"),
    "errors": ("GET", "/plain/errors", {}, None, 200, b"told"),
    "exc_info": ("GET", "/plain/exc_info", {}, None, 500, b"replaced"),
    "a file of wsgi.file_wrapper": ("GET", "/plain/file", {}, None, 200, None),
    "headers of a request": ("GET", "/plain/", {"X-A": "b", "Cookie": "a=b"}, None, 200, b"GET "),
    "an escaped path": ("GET", "/plain/path/caf%C3%A9%2F", {}, None, 200, "/plain/path/caf\xe9/".encode()),
    "Flask": ("GET", "/flask/hello/a?q=1", {}, None, 200, b"hello a 1"),
    "Flask, a file": ("POST", "/flask/upload", MULTIPART, FORM, 200, b"a.txt 3"),
    "Flask, pieces": ("GET", "/flask/stream", {}, None, 200, b"0,1,2,"),
    "Flask, HEAD": ("HEAD", "/flask/stream", {}, None, 200, b""),
    "Flask, a redirection": ("GET", "/flask/there", {}, None, 302, None),
    "Flask, not found": ("GET", "/flask/nothing", {}, None, 404, None),
    "Flask, an error": ("GET", "/flask/raise", {}, None, 500, None),
    "Django": ("GET", "/django/hello/?q=1", {}, None, 200, b"hello 1"),
    "Django, a file": ("POST", "/django/upload/", MULTIPART, FORM, 200, b"a.txt 3"),
    "Django, pieces": ("GET", "/django/stream/", {}, None, 200, b"0,1,2,"),
    "Django, not found": ("GET", "/django/nothing/", {}, None, 404, None),
    "Django, an error": ("GET", "/django/raise/", {}, None, 500, None),
}


def served():
    """The applications, each below a path of its own."""
    import traceback
    import warnings
    from wsgiref.validate import validator

    warnings.simplefilter("error")
    inner = {"plain": plain, "flask": in_flask(), "django": in_django()}
    told = []

    def dispatch(environ, start_response):
        name, _, rest = environ["PATH_INFO"][1:].partition("/")
        if name != "plain":
            environ["SCRIPT_NAME"], environ["PATH_INFO"] = f"/{name}", f"/{rest}"
        return inner[name](environ, start_response)

    validated = validator(dispatch)

    def application(environ, start_response):
        if environ["PATH_INFO"] in ("/", "/told"):
            # The validator's objections since the last time.
            text = json.dumps(told).encode()
            told.clear()
            start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
            return [text]
        try:
            return Watched(validated(environ, start_response), told)
        except (AssertionError, Warning):
            told.append(traceback.format_exc().splitlines()[-1])
            raise

    return application


class Watched:
    """An iterable whose errors are taken down: a server may drop them behind the head."""

    def __init__(self, iterable, told):
        self.iterable, self.told = iterable, told
        self.iterator = None

    def __iter__(self):
        self.iterator = iter(self.iterable)
        return self

    def __next__(self):
        try:
            return next(self.iterator)
        except AssertionError as error:
            self.told.append(f"{error}")
            raise

    def close(self):
        self.iterable.close()


def plain(environ, start_response):
    stream, kind = environ["wsgi.input"], environ["PATH_INFO"].removeprefix("/plain/")
    head = [("Content-Type", "text/plain")]
    if kind in ("empty", "unmodified"):
        start_response("204 No Content" if kind == "empty" else "304 Not Modified", [])
        return []
    if kind == "exc_info":
        start_response("200 OK", head)
        try:
            raise LookupError("raised on purpose")
        except LookupError:
            start_response("500 Error", head, sys.exc_info())
        return [b"replaced"]
    if kind == "write":
        start_response("200 OK", head)(b"written and ")
        return [b"returned"]
    if kind == "errors":
        environ["wsgi.errors"].write("a line of the application\n")
        environ["wsgi.errors"].writelines(["and ", "more\n"])
        environ["wsgi.errors"].flush()
    start_response("200 OK", head)
    if kind == "pieces":
        return (f"{number},".encode() for number in range(3))
    if kind == "file":
        return environ.get("wsgi.file_wrapper", lambda file: iter(lambda: file.read(8192), b""))(open(__file__, "rb"))
    if kind.startswith("path/"):
        return [environ["PATH_INFO"].encode("latin-1")]
    return [answer(kind, stream, environ)]


def answer(kind, stream, environ):
    if kind == "read":
        return b"".join(iter(lambda: stream.read(2), b""))
    if kind == "size":
        return str(sum(map(len, iter(lambda: stream.read(65536), b"")))).encode()
    if kind == "lines":
        return repr(list(stream)).encode()
    if kind == "readline":
        return repr(list(iter(stream.readline, b""))).encode()
    if kind == "readlines":
        return repr(stream.readlines()).encode()
    if kind == "errors":
        return b"told"
    return f"{environ['REQUEST_METHOD']} {environ['QUERY_STRING']}".encode()


def in_flask():
    from flask import Flask, Response, redirect, request

    app = Flask(__name__)

    @app.get("/hello/<name>")
    def hello(name):
        return f"hello {name} {request.args['q']}"

    @app.post("/upload")
    def upload():
        file = request.files["file"]
        return f"{file.filename} {len(file.read())}"

    @app.get("/stream")
    def stream():
        return Response((f"{number}," for number in range(3)), mimetype="text/plain")

    @app.get("/there")
    def there():
        return redirect("/flask/hello/a?q=1")

    @app.get("/raise")
    def raising():
        raise LookupError("raised on purpose")

    return app


def in_django():
    import django
    from django.conf import settings

    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=URLs, SECRET_KEY="of the tests", MIDDLEWARE=[])
    django.setup()
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse, StreamingHttpResponse
    from django.urls import path

    def upload(request):
        file = request.FILES["file"]
        return HttpResponse(f"{file.name} {len(file.read())}")

    def raising(request):
        raise LookupError("raised on purpose")

    URLs.urlpatterns = [
        path("hello/", lambda request: HttpResponse(f"hello {request.GET['q']}")),
        path("upload/", upload),
        path("stream/", lambda request: StreamingHttpResponse(f"{number}," for number in range(3))),
        path("raise/", raising),
    ]
    return get_wsgi_application()


class URLs:
    """Django's table of URLs, in place of a module."""


def ask(connection, method, target, headers, body):
    connection.request(method, target, body=body, headers=headers, encode_chunked=isinstance(body, list))
    response = connection.getresponse()
    return response.status, response.read()


def main():
    port, report = int(sys.argv[1]), sys.argv[2]
    found = {}
    for name, (method, target, headers, body, status, text) in REQUESTS.items():
        if isinstance(body, list):
            headers = {**headers, "Transfer-Encoding": "chunked"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            answered = ask(connection, method, target, headers, body)
        except (OSError, http.client.HTTPException) as error:
            answered = (f"{type(error).__name__}: {error}", b"")
        connection.close()
        _, told = ask(http.client.HTTPConnection("127.0.0.1", port, timeout=20), "GET", "/told", {}, None)
        if told := json.loads(told):
            found[name] = f"failed: the validator says {told[0]}"
        elif answered[0] != status or text is not None and answered[1] != text:
            found[name] = f"failed: {answered[0]} {answered[1][:80]!r}"
        else:
            found[name] = "passed"
    with open(report, "w") as file:
        json.dump({"tests": found}, file)


if __name__ == "__main__":
    main()
else:
    application = served()
