"""The rivals: plain python processes that run the packages with stock torch.

    worker.py MANIFEST              one process
    worker.py MANIFEST --prefork N  imports and loads, then gc.freeze() and N forked children

Commands are JSON lines on stdin: {"model": NAME, "seconds": S, "processes": P, "threads": T}; each is answered by one JSON
line: {"latencies_us": [...], "wrong": N, "seconds": S, "effort": {"switches": N, "faults": N}, "processes": [PID, ...]}; who
asks measures the memory of these processes. With `threads`, that many Python threads share one process; with `processes`, so many of the forked children
work at the same time. Every output is compared bit for bit.
"""

import argparse
import gc
import json
import os
import resource
import sys
import threading
import time

import numpy as np
import torch
from torch.package import PackageImporter


class Model:
    def __init__(self, entry):
        self.module = PackageImporter(entry["package"]).load_pickle("model", "model.pkl")
        shape = [entry["count"], *entry["input_shape"]]
        self.inputs = torch.from_numpy(np.fromfile(entry["inputs"], "<f4").reshape(shape))
        expected = np.fromfile(entry["expected"], "<f4").reshape(entry["count"], -1)
        self.expected = [row.tobytes() for row in expected]


def drive(model, seconds):
    """Calls the model until the time is over: the latency of each call in microseconds, and how many results were wrong."""
    latencies, wrong = [], 0
    end = time.perf_counter() + seconds
    index = 0
    while True:
        start = time.perf_counter()
        if start >= end:
            return latencies, wrong
        image = model.inputs[index % len(model.inputs)]
        output = model.module(image).numpy().tobytes()
        latencies.append((time.perf_counter() - start) * 1e6)
        wrong += output != model.expected[index % len(model.expected)]
        index += 1


def effort():
    """What this process has done so far: switches of threads, and page faults."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"switches": usage.ru_nvcsw + usage.ru_nivcsw, "faults": usage.ru_minflt + usage.ru_majflt}


def difference(now, before):
    return {name: now[name] - before[name] for name in now}


def serve_command(models, command):
    replies = []
    before = effort()
    start = time.perf_counter()
    run = lambda: replies.append(drive(models[command["model"]], command["seconds"]))
    threads = [threading.Thread(target=run) for _ in range(command.get("threads", 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "latencies_us": [latency for latencies, _ in replies for latency in latencies],
        "wrong": sum(wrong for _, wrong in replies),
        "seconds": time.perf_counter() - start,
        "effort": difference(effort(), before),
        "processes": [os.getpid()],
    }


def serve(models, reader, writer):
    for line in reader:
        writer.write(json.dumps(serve_command(models, json.loads(line))) + "\n")
        writer.flush()


def prefork(models, count):
    """Forks the children and passes each command on to as many as it names."""
    gc.collect()
    gc.freeze()
    children = []
    for _ in range(count):
        command_read, command_write = os.pipe()
        reply_read, reply_write = os.pipe()
        if os.fork() == 0:
            os.close(command_write)
            os.close(reply_read)
            for reader, writer in children:
                reader.close()
                writer.close()
            serve(models, os.fdopen(command_read), os.fdopen(reply_write, "w"))
            os._exit(0)
        os.close(command_read)
        os.close(reply_write)
        children.append((os.fdopen(reply_read), os.fdopen(command_write, "w")))
    for line in sys.stdin:
        working = children[: json.loads(line)["processes"]]
        for _, writer in working:
            writer.write(line)
            writer.flush()
        replies = [json.loads(reader.readline()) for reader, _ in working]
        print(
            json.dumps(
                {
                    "latencies_us": [latency for reply in replies for latency in reply["latencies_us"]],
                    "wrong": sum(reply["wrong"] for reply in replies),
                    "seconds": max(reply["seconds"] for reply in replies),
                    "effort": {
                        name: sum(reply["effort"][name] for reply in replies) for name in ("switches", "faults")
                    },
                    "processes": [process for reply in replies for process in reply["processes"]],
                }
            ),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("manifest")
    parser.add_argument("--prefork", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with open(arguments.manifest) as file:
        models = {entry["name"]: Model(entry) for entry in json.load(file)}
    for model in models.values():
        model.module(model.inputs[0])
    print(json.dumps({"ready": os.getpid()}), flush=True)
    if arguments.prefork:
        prefork(models, arguments.prefork)
    else:
        serve(models, sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
