"""an application on uvicorn in a thread: routes, validation errors, dependencies, threads"""

import http.client
import json
import socket
import threading
import time
from typing import Annotated

import fastapi
import pydantic
import uvicorn


class Item(pydantic.BaseModel):
    name: str
    price: Annotated[float, pydantic.Field(gt=0)]


def application():
    app = fastapi.FastAPI()

    def page(size: int = 10):
        return size * 2

    @app.post("/items/{number}")
    async def make(number: int, item: Item, pages: Annotated[int, fastapi.Depends(page)]):
        return {"number": number, "item": item, "pages": pages}

    @app.get("/slow")
    def slow():
        return sum(i * i for i in range(10_000))

    return app


def work(tell):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(application(), log_level="error", lifespan="off", loop="asyncio"))
    # Signals belong to the main thread.
    server.install_signal_handlers = lambda: None
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)

    def ask(method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        result = [answer.status, json.loads(answer.read())]
        connection.close()
        return result

    for i in range(20):
        tell(f"made {i}", ask("POST", f"/items/{i}?size={i}", {"name": f"ü{i}", "price": i + 0.5}))
    tell("invalid", ask("POST", "/items/x", {"price": -1}))
    tell("slow", ask("GET", "/slow"))
    tell("schema", ask("GET", "/openapi.json"))
    server.should_exit = True
    thread.join()
