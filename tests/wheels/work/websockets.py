"""a server and clients on asyncio, compression, the masking in C"""

import asyncio

import websockets
from websockets import speedups
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve


async def handler(connection):
    async for message in connection:
        await connection.send(message[::-1])


async def session(tell):
    async with serve(handler, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}") as client:
            answers = []
            for i in range(40):
                await client.send(f"message {i} " * 100)
                answers.append(await client.recv())
            await client.send(bytes(range(256)) * 200)
            answers.append(await client.recv())
            tell("answers", answers)
            await client.close(4001, "bye")
            try:
                await client.recv()
            except websockets.ConnectionClosed as error:
                tell("closed", [error.sent.code, error.sent.reason])


def work(tell):
    tell("mask", speedups.apply_mask(bytes(range(256)) * 9, b"\1\2\3\4"))
    asyncio.run(session(tell))
