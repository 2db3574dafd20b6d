"""The protocol of contenders in plain python, as benches/measure/src/contender.rs has it.

A contender prints a line when it is ready. Orders are lines of JSON on stdin, {NAME: {ARGUMENT: VALUE, ...}} or "NAME", and each is
answered by one line of JSON, of which every part may be left out:

    {"latencies_us": [...], "wrong": N, "seconds": S, "effort": {"cpu_us": N, "switches": N, "faults": N}, "processes": [PID, ...],
     "reading": N}

The asking process measures the memory of these processes.
"""

import json
import os
import sys


def answer_orders(reader=sys.stdin, writer=sys.stdout, **handlers):
    """Answers each order by what the function of its name returns."""
    for line in reader:
        order = json.loads(line)
        name, arguments = (order, {}) if isinstance(order, str) else next(iter(order.items()))
        print(json.dumps(handlers[name](**arguments)), file=writer, flush=True)


def ready():
    """Says that orders can come."""
    print(json.dumps({"ready": os.getpid()}), flush=True)
