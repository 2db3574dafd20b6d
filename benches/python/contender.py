"""How contenders in plain python that call models carry out their order (`orders.py`):

    {"call": {"model": NAME, "seconds": S, "processes": P, "threads": T}}

With `threads`, that many Python threads share one process; with `processes`, so many of the forked children work at the same time.
Every output is compared bit for bit: a model has `call(index)`, whose result is bytes, and `expected`, the results in turn.
"""

import gc
import json
import os
import queue
import resource
import threading
import time

from orders import answer_orders, ready


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
    """This process's effort so far: CPU time in microseconds, switches of threads, and page faults."""
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


def caller_of(models):
    """Carries out the order to call, in this process."""

    def call(model, seconds, threads, **_):
        while len(callers) < threads:
            callers.append(Caller())
        called = callers[:threads]
        before = effort()
        start = time.perf_counter()
        for caller in called:
            caller.orders.put((models[model], seconds))
        replies = [caller.reply() for caller in called]
        return {
            "latencies_us": [latency for latencies, _ in replies for latency in latencies],
            "wrong": sum(wrong for _, wrong in replies),
            "seconds": time.perf_counter() - start,
            "effort": difference(effort(), before),
            "processes": [os.getpid()],
        }

    return call


def prefork(models, count):
    """Forks the children and passes each order on to as many as it names."""
    gc.collect()
    gc.freeze()
    children = []
    for _ in range(count):
        order_read, order_write = os.pipe()
        reply_read, reply_write = os.pipe()
        if os.fork() == 0:
            os.close(order_write)
            os.close(reply_read)
            for reader, writer in children:
                reader.close()
                writer.close()
            answer_orders(os.fdopen(order_read), os.fdopen(reply_write, "w"), call=caller_of(models))
            os._exit(0)
        os.close(order_read)
        os.close(reply_write)
        children.append((os.fdopen(reply_read), os.fdopen(order_write, "w")))

    def call(**arguments):
        working = children[: arguments["processes"]]
        for _, writer in working:
            print(json.dumps({"call": arguments}), file=writer, flush=True)
        replies = [json.loads(reader.readline()) for reader, _ in working]
        return {
            "latencies_us": [latency for reply in replies for latency in reply["latencies_us"]],
            "wrong": sum(reply["wrong"] for reply in replies),
            "seconds": max(reply["seconds"] for reply in replies),
            "effort": {name: sum(reply["effort"][name] for reply in replies) for name in replies[0]["effort"]},
            "processes": [process for reply in replies for process in reply["processes"]],
        }

    return call


def answer(models, children=0):
    """Says that the models are loaded, and answers orders in this process, or in that many forked children."""
    ready()
    answer_orders(call=prefork(models, children) if children else caller_of(models))
