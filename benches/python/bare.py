"""The rivals of `compare bare`: workers without any package, started one after the other.

    bare.py sub-interpreters     interpreters of this process that CPython makes, each with a GIL of its own (PEP 684, 3.12)
    bare.py prefork              gc.freeze() and a forked child for each worker
    bare.py processes            a new process for each worker

The order `grow` of orders.py starts a worker and waits until it has run WORK. The answer names the processes whose memory the
workers take. Hydrozoa's contender runs WORK too.
"""

import gc
import os
import subprocess
import sys

# `-I` leaves out the folder of the script.
sys.path.append(os.path.dirname(__file__))
from orders import answer_orders, ready

# `threading` too: every program that serves has it.
WORK = "import threading\nassert sum(range(100)) == 4950"


class SubInterpreters:
    def __init__(self):
        if sys.version_info < (3, 12):
            sys.exit("before 3.12 all interpreters of a process have one GIL")
        if sys.version_info < (3, 13):
            import _xxsubinterpreters as interpreters
        else:
            import _interpreters as interpreters
        self.interpreters, self.made = interpreters, []

    def grow(self):
        # By default with a GIL of its own: `PyInterpreterConfig_OWN_GIL`.
        made = self.interpreters.create()
        self.made.append(made)
        failure = self.interpreters.run_string(made, WORK)
        if failure is not None:
            sys.exit(str(failure))
        return [os.getpid()]


class Processes:
    """Workers that say that they have worked, and wait for the end of their input."""

    def __init__(self):
        self.pids = []

    def grow(self):
        told, tell = os.pipe()
        wait, keep = os.pipe()
        self.pids.append(self.start(wait, tell, (told, keep)))
        os.close(tell)
        os.close(wait)
        if os.read(told, 1) != b"1":
            sys.exit("a worker has ended")
        os.close(told)
        return self.pids

    def start(self, wait, tell, others):
        code = f"import os\n{WORK}\nos.write({tell}, b'1')\nos.read({wait}, 1)"
        return subprocess.Popen([sys.executable, "-I", "-c", code], pass_fds=(wait, tell)).pid


class Prefork(Processes):
    def __init__(self):
        # The parent is there whatever happens: it is part of the first worker's price.
        self.pids = [os.getpid()]
        exec(WORK, {})
        gc.collect()
        gc.freeze()

    def start(self, wait, tell, others):
        child = os.fork()
        if child == 0:
            for other in others:
                os.close(other)
            exec(WORK, {})
            os.write(tell, b"1")
            os.read(wait, 1)
            os._exit(0)
        return child


def main():
    contender = {"sub-interpreters": SubInterpreters, "prefork": Prefork, "processes": Processes}[sys.argv[1]]()
    ready()
    answer_orders(grow=lambda workers: {"processes": [contender.grow() for _ in range(workers)][-1]})
    # The workers' pipes end with this process.
    os._exit(0)


if __name__ == "__main__":
    main()
