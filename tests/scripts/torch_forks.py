"""Copy 1 forks, while the other copies register operators. Each child registers operators and uses anomaly mode.

Arguments: a folder that the copies share, and their number. In plain python there is one copy.
"""

import os
import signal
import sys
import time
import warnings

import torch

torch.set_num_threads(1)
warnings.simplefilter("ignore")
COPY = os.environ.get("HYDROZOA_COPY", "1")
FOLDER, COPIES = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else (None, 1)
FORKS = 25
SECONDS = 60


def there(name):
    return sum(entry.startswith(name) for entry in os.listdir(FOLDER))


def note(name):
    open(os.path.join(FOLDER, f"{name}-{COPY}"), "w").close()


def register(name):
    library = torch.library.Library(name, "DEF")
    for number in range(10):
        library.define(f"times{number}(Tensor x) -> Tensor")
        library.impl(f"times{number}", lambda x, number=number: x * number, "CompositeExplicitAutograd")
    right = getattr(torch.ops, name).times3(torch.ones(2)).tolist() == [3, 3]
    library._destroy()
    delattr(torch.ops, name)
    return right


def anomaly_is_found():
    x = torch.zeros(1, requires_grad=True)
    try:
        with torch.autograd.detect_anomaly():
            (torch.sqrt(x) * 0).backward()
    except RuntimeError as error:
        return "returned nan values" in str(error)
    return False


def work():
    return register("child") and torch.ops.aten.add(torch.ones(1), 1).item() == 2 and anomaly_is_found()


def fork():
    """How a child ends that works in this copy."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 7 if work() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it hangs"


if COPY == "1":
    while FOLDER and there("busy") < COPIES - 1:
        time.sleep(0.01)
    failures = 0
    for turn in range(FORKS):
        status = fork()
        if status != 7:
            failures += 1
            sys.stdout.write(f"copy 1: FAILED: child {turn}: {status}\n")
            break
    if FOLDER:
        note("over")
else:
    note("busy")
    failures = 0
    while not there("over"):
        failures += not register(f"busy{COPY}")
sys.stdout.write(f"copy {COPY}: {failures} failed\n")
sys.exit(failures > 0)
