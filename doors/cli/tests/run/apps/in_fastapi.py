"""An application of FastAPI, which is one of Starlette."""

import threading
from contextlib import asynccontextmanager

from fastapi import BackgroundTasks, FastAPI, Request, UploadFile, WebSocket
from starlette.responses import FileResponse, StreamingResponse


@asynccontextmanager
async def lifespan(app):
    yield {"word": "started"}
    print("the lifespan has ended", flush=True)


app = FastAPI(lifespan=lifespan)


@app.get("/hello/{number}")
async def hello(number: int, q: str, request: Request):
    return {"number": number, "q": q, "state": request.state.word}


@app.post("/upload")
async def upload(file: UploadFile):
    return {"name": file.filename, "size": len(await file.read())}


@app.get("/stream")
async def stream():
    async def pieces():
        for number in range(3):
            yield f"{number},"

    return StreamingResponse(pieces())


@app.get("/file")
async def file():
    return FileResponse(__file__)


calls = threading.local()


@app.get("/thread")
def thread():
    calls.count = getattr(calls, "count", 0) + 1
    return f"call {calls.count} on {threading.current_thread().name}"


@app.get("/raise")
async def raising():
    raise LookupError("raised on purpose")


@app.get("/background")
async def background(tasks: BackgroundTasks):
    tasks.add_task(print, "in the background", flush=True)
    return "later"


@app.websocket("/socket")
async def socket(socket: WebSocket):
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_json({"heard": text})
