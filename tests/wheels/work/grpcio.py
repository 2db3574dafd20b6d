"""a threaded server and an asyncio one, streams, deadlines, status codes"""

import asyncio
from concurrent import futures

import grpc

METHODS = {
    "Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request[::-1]),
    "Count": grpc.unary_stream_rpc_method_handler(lambda request, context: (bytes([i]) for i in range(request[0]))),
}


def refuse(request, context):
    context.abort(grpc.StatusCode.OUT_OF_RANGE, "no such row")


def threaded(tell):
    server = grpc.server(futures.ThreadPoolExecutor(4))
    methods = dict(METHODS, Refuse=grpc.unary_unary_rpc_method_handler(refuse))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("work.Work", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo = channel.unary_unary("/work.Work/Echo")
        calls = [echo.future(f"message {i}".encode() * 50, wait_for_ready=True, timeout=60) for i in range(40)]
        tell("echo", [call.result() for call in calls])
        tell("stream", list(channel.unary_stream("/work.Work/Count")(b"\x50")))
        for name in ("Refuse", "Missing"):
            try:
                channel.unary_unary(f"/work.Work/{name}")(b"")
            except grpc.RpcError as error:
                tell(name, [error.code().name, error.details()])
    server.stop(None).wait()


async def asynchronous(tell):
    async def echo(request, context):
        await asyncio.sleep(0)
        return request * 2

    server = grpc.aio.server()
    methods = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("work.Work", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/work.Work/Echo")
        tell("asyncio", list(await asyncio.gather(*(call(f"m{i}".encode()) for i in range(30)))))
    await server.stop(None)


def work(tell):
    threaded(tell)
    asyncio.run(asynchronous(tell))
