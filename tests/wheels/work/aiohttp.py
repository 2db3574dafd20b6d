"""a server, its client, web sockets, multipart, a typed error"""

import asyncio

import aiohttp
from aiohttp import web


async def echo(request):
    return web.json_response({"query": dict(request.query), "body": (await request.read()).hex()})


async def upload(request):
    fields = {}
    async for part in await request.multipart():
        fields[part.name] = len(await part.read())
    return web.json_response(fields)


async def socket(request):
    connection = web.WebSocketResponse()
    await connection.prepare(request)
    async for message in connection:
        await connection.send_bytes(message.data.encode() * 3)
    return connection


async def session(tell):
    app = web.Application()
    app.add_routes([web.post("/echo", echo), web.post("/upload", upload), web.get("/socket", socket)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    root = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession() as client:
        async with client.post(f"{root}/echo", params={"a": "ü &"}, data=b"\0\1" * 5000) as answer:
            tell("echo", repr(await answer.json()))
        form = aiohttp.FormData({"one": "x" * 100})
        form.add_field("file", b"y" * 70_000, filename="f")
        async with client.post(f"{root}/upload", data=form) as answer:
            tell("upload", await answer.json())
        async with client.ws_connect(f"{root}/socket") as connection:
            for i in range(20):
                await connection.send_str(f"m{i}")
            tell("socket", [(await connection.receive()).data for _ in range(20)])
        async with client.get(f"{root}/none") as answer:
            tell("missing", answer.status)
    await runner.cleanup()


def work(tell):
    asyncio.run(session(tell))
