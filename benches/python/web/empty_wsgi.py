"""An application of WSGI that does nothing."""

import worker

REQUESTS = [("GET", "/", b"")]
BODY = b"a few words, which are the same in each response\n"


def app(environ, start_response):
    headers = [("content-type", "text/plain"), ("content-length", str(len(BODY))), ("x-worker", worker.name())]
    start_response("200 OK", headers)
    return [BODY]
