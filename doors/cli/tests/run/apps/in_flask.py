"""An application of Flask."""

from flask import Flask, Response, request, send_file, session

app = Flask(__name__)
app.secret_key = "of the tests"


@app.get("/hello/<name>")
def hello(name):
    return f"hello {name} {request.args['q']}"


@app.post("/upload")
def upload():
    file = request.files["file"]
    return f"{file.filename} {len(file.read())}"


@app.get("/stream")
def stream():
    return Response((f"{number}," for number in range(3)), mimetype="text/plain")


@app.get("/file")
def file():
    return send_file(__file__)


@app.get("/raise")
def raising():
    raise LookupError("raised on purpose")


@app.get("/cookie")
def cookie():
    session["a"] = 1
    return "set"
