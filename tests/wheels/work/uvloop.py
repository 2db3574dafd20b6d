"""streams, datagrams, timers, executor threads, name look-up"""

import asyncio
import socket

import uvloop


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data[::-1], address)


class Client(asyncio.DatagramProtocol):
    def __init__(self):
        self.answer = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, address):
        self.answer.set_result(data)


async def handle(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def session(tell):
    loop = asyncio.get_running_loop()
    tell("loop", type(loop).__module__)
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def talk(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = []
        for i in range(30):
            writer.write(f"client {number} line {i}\n".encode() * 10)
            lines.extend([await reader.readline() for _ in range(10)])
        writer.close()
        await writer.wait_closed()
        return lines

    tell("streams", list(await asyncio.gather(*(talk(i) for i in range(8)))))
    server.close()
    await server.wait_closed()
    transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    client, protocol = await loop.create_datagram_endpoint(Client, remote_addr=transport.get_extra_info("sockname"))
    client.sendto(b"datagram")
    tell("datagram", await asyncio.wait_for(protocol.answer, 30))
    client.close()
    transport.close()
    tell("threads", sum(await asyncio.gather(*(loop.run_in_executor(None, lambda i=i: i * i) for i in range(50)))))
    order = []
    for delay in (0.03, 0.01, 0.02):
        loop.call_later(delay, order.append, delay)
    await asyncio.sleep(0.1)
    tell("timers", order)
    found = await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
    tell("address", found[0][4])


def work(tell):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(session(tell))
