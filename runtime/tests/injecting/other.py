"""The work of the interpreters that go on: much of it needs locks that all share."""

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

library = ctypes.CDLL(None)
count = 0


def answer():
    global count
    count += 1
    results = []
    thread = threading.Thread(target=lambda: results.append(sum(n * n for n in range(1000))))
    thread.start()
    thread.join()
    text = json.dumps(list(range(300)))
    results.append(sum(int(number) for number in re.findall(r"\d+", text)))
    # The locks of the streams, of the environment, of the time zone and of the dynamic linker.
    library.fflush(None)
    os.environ["HYDROZOA_TEST_OTHER"] = text[:20]
    time.localtime()
    ctypes.CDLL(None).abs(3)
    with open(os.devnull, "w") as file:
        print(text, file=file)
    if count % 8 == 0:
        for name in ("_heapq", "_bisect", "array"):
            sys.modules.pop(name, None)
            __import__(name)
        results.append(int(subprocess.run(["echo", "5"], capture_output=True).stdout))
        results.pop()
    return sum(results)
