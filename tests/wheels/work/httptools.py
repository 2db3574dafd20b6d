"""requests and responses parsed in pieces, addresses, errors"""

import httptools


class Events:
    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *arguments: self.seen.append([name, *arguments])


REQUEST = (
    b"POST /a%20b?x=1 HTTP/1.1\r\nHost: example\r\nTransfer-Encoding: chunked\r\nX-Key: v1\r\n\r\n"
    b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n"
)


def work(tell):
    for step in (1, 7, 1000):
        events = Events()
        parser = httptools.HttpRequestParser(events)
        for at in range(0, len(REQUEST), step):
            parser.feed_data(REQUEST[at : at + step])
        tell(f"step {step}", events.seen)
        tell(f"method {step}", [parser.get_method(), parser.get_http_version(), parser.should_keep_alive()])
    events = Events()
    response = httptools.HttpResponseParser(events)
    response.feed_data(b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n")
    tell("response", [response.get_status_code(), events.seen])
    url = httptools.parse_url(b"https://user@host:8443/path?query#fragment")
    tell("url", [url.schema, url.host, url.port, url.path, url.query, url.fragment, url.userinfo])
    try:
        httptools.HttpRequestParser(Events()).feed_data(b"NOT HTTP\r\n\r\n")
    except httptools.HttpParserError as error:
        tell("error", f"{type(error).__name__}: {error}")
