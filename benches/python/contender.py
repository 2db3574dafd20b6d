"""What each contender in plain python does with its orders.

Orders are lines of JSON on stdin: {"model": NAME, "seconds": S, "processes": P, "threads": T}; each is answered by one JSON
line: {"latencies_us": [...], "wrong": N, "seconds": S, "effort": {"cpu_us": N, "switches": N, "faults": N}, "processes":
[PID, ...]}; who asks measures the memory of these processes. With `threads`, that many Python threads share one process; with `processes`, so many
of the forked children work at the same time. Every output is compared bit for bit: a model has `call(index)`, whose result
is bytes, and `expected`, the results in turn.
"""

import gc
import json
import os
import queue
import resource
import sys
import threading
import time


def drive(model, seconds):
    """Calls the model until the time is over: the latency of each call in microseconds, and how many results were wrong."""
    latencies, wrong = [], 0
    end = time.perf_counter() + seconds
    index = 0
    while True:
        start = time.perf_counter()
        if start >= end:
            return latencies, wrong
        output = model.call(index)
        latencies.append((time.perf_counter() - start) * 1e6)
        wrong += output != model.expected[index % len(model.expected)]
        index += 1


def effort():
    """What this process has done so far: CPU time in microseconds, switches of threads, and page faults."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu_us": round((usage.ru_utime + usage.ru_stime) * 1e6),
        "switches": usage.ru_nvcsw + usage.ru_nivcsw,
        "faults": usage.ru_minflt + usage.ru_majflt,
    }


def difference(now, before):
    return {name: now[name] - before[name] for name in now}


class Caller:
    """A thread that calls when it is told to, and stays, as those of a server do."""

    def __init__(self):
        self.orders, self.replies = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                self.replies.put(drive(*self.orders.get()))
            except BaseException as error:
                self.replies.put(error)

    def reply(self):
        reply = self.replies.get()
        if isinstance(reply, BaseException):
            raise reply
        return reply


callers = []


def serve_command(models, command):
    while len(callers) < command.get("threads", 1):
        callers.append(Caller())
    called = callers[: command.get("threads", 1)]
    before = effort()
    start = time.perf_counter()
    for caller in called:
        caller.orders.put((models[command["model"]], command["seconds"]))
    replies = [caller.reply() for caller in called]
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
                    "effort": {name: sum(reply["effort"][name] for reply in replies) for name in replies[0]["effort"]},
                    "processes": [process for reply in replies for process in reply["processes"]],
                }
            ),
            flush=True,
        )


def answer(models, children):
    """Says that the models are loaded, and answers orders in this process, or in that many forked children."""
    print(json.dumps({"ready": os.getpid()}), flush=True)
    if children:
        prefork(models, children)
    else:
        serve(models, sys.stdin, sys.stdout)
