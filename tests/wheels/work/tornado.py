"""a server with a web socket, its client, the masking in C"""

import asyncio

from tornado import httpclient, httpserver, netutil, speedups, web, websocket


class Echo(web.RequestHandler):
    def post(self, name):
        self.set_header("X-Name", name)
        self.write({"body": self.request.body.decode(), "arguments": self.get_query_arguments("q")})


class Socket(websocket.WebSocketHandler):
    def on_message(self, message):
        self.write_message(message[::-1], binary=isinstance(message, bytes))


async def session(tell):
    sockets = netutil.bind_sockets(0, "127.0.0.1")
    server = httpserver.HTTPServer(web.Application([(r"/echo/(\w+)", Echo), (r"/socket", Socket)]))
    server.add_sockets(sockets)
    port = sockets[0].getsockname()[1]
    client = httpclient.AsyncHTTPClient(force_instance=True)
    answers = await asyncio.gather(
        *(client.fetch(f"http://127.0.0.1:{port}/echo/n{i}?q={i}&q=x", method="POST", body="ü" * i) for i in range(20))
    )
    tell("echo", [[answer.headers["X-Name"], answer.body] for answer in answers])
    connection = await websocket.websocket_connect(f"ws://127.0.0.1:{port}/socket")
    for i in range(20):
        await connection.write_message(bytes(range(200)) * i, binary=True)
        tell(f"socket {i}", await connection.read_message())
    connection.close()
    try:
        await client.fetch(f"http://127.0.0.1:{port}/none")
    except httpclient.HTTPClientError as error:
        tell("error", str(error))
    server.stop()
    client.close()


def work(tell):
    tell("mask", speedups.websocket_mask(b"abcd", bytes(range(250))))
    asyncio.run(session(tell))
