"""A model in FastAPI, in each worker of uvicorn. Bodies are the tensors' bytes."""

import os
import pathlib

import fastapi
import numpy

import work

model = os.environ["SERVING_MODEL"]
call = work.make(model, os.environ["SERVING_FOLDER"])
app = fastapi.FastAPI()

# Uvicorn answers as soon as one worker can. To wait for all of them, look for this folder's files.
ready = pathlib.Path(os.environ["SERVING_READY"])
(ready / str(os.getpid())).touch()


@app.get("/health")
def health():
    return fastapi.Response(status_code=200 if len(os.listdir(ready)) >= int(os.environ["SERVING_INSTANCES"]) else 503)


# A coroutine that computes keeps its worker busy. There is a worker for each instance, so nothing faster could run beside it.
@app.post("/predict")
async def predict(request: fastapi.Request):
    output = numpy.ascontiguousarray(call(work.array(model, await request.body())))
    return fastapi.Response(output.tobytes(), media_type="application/octet-stream")
