"""Asks a server of Triton's that has the models beside this file, and checks each answer.

ask.py answers PORT METRICS [--own]: all of models/, and of own/ too
ask.py torch PORT: a digest of what torch/mobilenet answers
ask.py time PORT MODEL: milliseconds of a request, the median
"""

import hashlib
import http.client
import json
import statistics
import sys
import threading
import time

PATIENCE = 60


class Server:
    """One connection, which is kept."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def ask(self, method, path, body=None):
        body = None if body is None else json.dumps(body)
        self.connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, response.read().decode()

    def infer(self, model, *inputs, **more):
        """The outputs by their names, and parameters; or the status and the error."""
        body = {"inputs": [dict(zip(("name", "datatype", "shape", "data"), one)) for one in inputs], **more}
        status, text = self.ask("POST", f"/v2/models/{model}/infer", body)
        answer = json.loads(text)
        if status != 200:
            # Triton's Python backend also says where an exception was raised.
            return status, answer["error"].partition("\n\nAt:")[0]
        outputs = {one["name"]: (one["shape"], one["data"]) for one in answer["outputs"]}
        return outputs | answer.get("parameters", {})


failures = []


def check(case, found, expected):
    if found == expected:
        print(f"ok {case}")
    else:
        failures.append(case)
        print(f"FAILED {case}:\n  found    {found!r}\n  expected {expected!r}")


def answers(server):
    x = [1.5, -2.0, 0.0, 4.0]
    check("identity", server.infer("identity", ("X", "FP32", [2, 2], x)), {"Y": ([2, 2], x)})
    pair = [("A", "FP32", [1, 2], [5, 7]), ("B", "FP32", [1, 2], [1, 2])]
    told = ([1, 1], ["add_sub 1 add_sub_0 CPU 0 4"])
    both = {"SUM": ([1, 2], [6, 9]), "DIFFERENCE": ([1, 2], [4, 5]), "TOLD": told}
    check("auto_complete_config", server.infer("add_sub", *pair), both)
    only = server.infer("add_sub", *pair, outputs=[{"name": "SUM"}])
    check("only the outputs that are asked for", only, {"SUM": ([1, 2], [6, 9])})
    texts = server.infer("text", ("T", "BYTES", [1, 3], ["a", "h\u00e4", ""]))
    check("texts", texts, {"UPPER": ([1, 3], ["A", "H\u00c4", ""]), "LENGTH": ([1, 3], [1, 3, 0])})
    root = server.infer("square_root", ("X", "FP32", [2], [4, 9]))
    check("a model may write its inputs", root, {"Y": ([2], [2, 3])})
    check("an error of a response", server.infer("square_root", ("X", "FP32", [1], [-1])), (400, "it is negative"))
    words = "Failed to process the request(s) for model 'square_root_0', message: ValueError: nothing to do"
    check("an exception", server.infer("square_root", ("X", "FP32", [0], [])), (500, words))
    status, _ = server.infer("identity", ("X", "FP64", [1, 1], [1]))
    check("what the server refuses", status, 400)
    check("calls of models", server.infer("calls", ("N", "INT32", [1], [5])), calls())
    check("decoupled responses", stream(server, 3), [0, 1, 2])
    check("no response at all", stream(server, 0), [])


def calls():
    error = "Error when running inference"
    why = [
        f"Model absent - {error}: Failed for execute the inference request. Model 'absent' is not ready.",
        "it is negative",
        f"Model stream - {error}: Model stream is using the decoupled. The current BLS request call doesn't support "
        "models using the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or "
        "'async_exec' calls for decoupled models.'",
    ]
    return {"SUM": ([1], [10]), "ECHO": ([5], [0, 1, 2, 3, 4]), "WHY": ([3], why)}


def stream(server, n):
    """The responses of the decoupled model, as server-sent events."""
    status, text = server.ask("POST", "/v2/models/stream/generate_stream", {"N": [n]})
    assert status == 200, text
    events = [json.loads(line[len("data:") :]) for line in text.splitlines() if line.startswith("data:")]
    return [event["OUT"] for event in events]


def of_the_server(server, port, metrics):
    """The server's own part in models: batches, sequences, ensembles, statistics, metrics, loads."""
    before = executions(server)

    def one():
        own = Server(port)
        assert own.infer("identity", ("X", "FP32", [1, 1], [1])) == {"Y": ([1, 1], [1])}

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count, executed = (after - then for after, then in zip(executions(server), before))
    check("eight requests at once are joined", (count, executed < 8), (8, True))

    def step(identity, value, **flags):
        parameters = {"sequence_id": identity, **flags}
        answer = server.infer("total", ("X", "INT32", [1, 1], [value]), parameters=parameters)
        return answer["TOTAL"][1][0] if "TOTAL" in answer else answer

    steps = [step(7, 1, sequence_start=True), step(8, 10, sequence_start=True), step(7, 2), step(8, 20)]
    steps += [step(7, 3, sequence_end=True), step(8, 30, sequence_end=True)]
    check("sequences", steps, [1, 10, 3, 30, 6, 60])
    pipeline = server.infer("pipeline", ("RAW", "BYTES", [1, 2], ["ab", "c"]))
    # An ensemble's answer also has what sequence it is of.
    pipeline = {name: value for name, value in pipeline.items() if not name.startswith("sequence_")}
    check("an ensemble", pipeline, {"TWICE": ([1, 2], ["AB", "C"]), "LENGTH": ([1, 2], [2, 1])})
    check("statistics count what succeeds", counts(server)[0] >= 1, True)
    _, text = Server(metrics).ask("GET", "/metrics")
    lines = [line for line in text.splitlines() if line.startswith("own_")]
    expected = ['own_requests{model="add_sub"} 2', "own_sizes_count 2", 'own_sizes_bucket{le="1"} 2']
    check("metrics of models", [line for line in expected if line not in lines], [])
    reload = [server.ask("POST", f"/v2/repository/models/square_root/{what}", {})[0] for what in ("unload", "load", "load")]
    check("unloads and loads", reload, [200, 200, 200])
    again = server.infer("square_root", ("X", "FP32", [1], [16]))
    check("a model that was loaded again", again, {"Y": ([1], [4])})


def counts(server):
    """How many requests have succeeded, and how many have failed."""
    _, text = server.ask("GET", "/v2/models/square_root/stats")
    stats = json.loads(text)["model_stats"][0]["inference_stats"]
    return stats["success"]["count"], stats["fail"]["count"]


def executions(server):
    _, text = server.ask("GET", "/v2/models/identity/stats")
    stats = json.loads(text)["model_stats"][0]
    return stats["inference_count"], stats["execution_count"]


def own(server):
    """Features that Triton's Python backend lacks, or has only in some releases."""
    said = {"is_lent": True, "count": 2, "name": "lent"}
    lent = server.infer("lent", ("X", "FP32", [2], [1, 2]))
    check("an input that is lent, and parameters of a response", lent, {"Y": ([2], [1, 2])} | said)
    gone = server.infer("leaves", ("N", "INT32", [1], [3]))
    check("a model sees that its client has gone", gone, {"GONE": ([1], [1])})
    loads = server.infer("loads", ("WHAT", "BYTES", [1], ["all"]))
    absent = "failed to load 'absent', failed to poll from model repository"
    check("a model loads a model of its own", loads, {"SAID": ([4], ["False", "True", "7.0", absent])})
    before = counts(server)
    server.infer("square_root", ("X", "FP32", [1], [-1]))
    limit = time.monotonic() + PATIENCE
    # They come after the response.
    while counts(server) == before and time.monotonic() < limit:
        time.sleep(0.01)
    check("statistics count an error as one", counts(server), (before[0], before[1] + 1))


def image():
    count = 3 * 64 * 64
    return ("IMAGE", "FP32", [1, 3, 64, 64], [(index * 37 % 101) / 101 for index in range(count)])


def main():
    what, port = sys.argv[1], int(sys.argv[2])
    server = Server(port)
    if what == "answers":
        answers(server)
        of_the_server(server, port, int(sys.argv[3]))
        if "--own" in sys.argv:
            own(server)
        sys.exit(len(failures) > 0)
    if what == "torch":
        shape, scores = server.infer("mobilenet", image())["SCORES"]
        assert shape == [1, 1000], shape
        print(hashlib.sha256(json.dumps(scores).encode()).hexdigest())
        return
    inputs = {"identity": ("X", "FP32", [1, 16], [1.0] * 16), "mobilenet": image()}[sys.argv[3]]
    times = []
    for _ in range(300 if sys.argv[3] == "identity" else 40):
        began = time.perf_counter()
        server.infer(sys.argv[3], inputs)
        times.append(time.perf_counter() - began)
    print(f"{statistics.median(times) * 1000:.3f}")


main()
