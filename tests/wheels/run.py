"""Runs one piece of work, a file of tests/wheels/work or tests/areas/work, for several rounds and writes its results.

    run.py FILE --rounds N --folder DIR [--copies K] [--packages NAME...]

Plain python and every copy of an interpreter run it alike. The report is DIR/copy-K.json; K is 0 in plain python. With
--copies, the copies begin each round together. A piece of work is a file with a function `work(tell)`. `tell(name, value)`
records the digest of one result. The value must be what plain python computes each time.
"""

import argparse
import faulthandler
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import struct
import sys
import time
import traceback
from pathlib import Path

COPY = int(os.environ.get("HYDROZOA_COPY", "0"))
"""The copy in which this runs; 0 in plain python."""


def feed(hasher, value):
    """Adds a value to a digest. It refuses values without bytes of their own, so that no address is compared."""
    kind = type(value).__name__
    if value is None or isinstance(value, (bool, int)):
        data = repr(value).encode()
    elif isinstance(value, float):
        data = struct.pack("<d", value)
    elif isinstance(value, complex):
        data = struct.pack("<dd", value.real, value.imag)
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
    elif isinstance(value, (list, tuple)):
        hasher.update(f"sequence {len(value)}:".encode())
        for item in value:
            feed(hasher, item)
        return
    elif isinstance(value, dict):
        hasher.update(f"mapping {len(value)}:".encode())
        for key, item in value.items():
            feed(hasher, key)
            feed(hasher, item)
        return
    elif hasattr(value, "__array__"):
        import numpy

        if hasattr(value, "detach"):
            # numpy refuses a tensor of torch that records gradients.
            value = value.detach()
        array = numpy.ascontiguousarray(value)
        if array.dtype.hasobject:
            feed(hasher, array.tolist())
            return
        kind, data = f"{array.dtype}{array.shape}", array.tobytes()
    else:
        raise TypeError(f"no digest of {type(value)}")
    hasher.update(f"{kind} {len(data)}:".encode() + data)


def digest(value):
    hasher = hashlib.sha256()
    feed(hasher, value)
    return hasher.hexdigest()[:16]


def short(value):
    """The value's first characters, for a message about a difference."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def meet(folder, copies, number):
    """Waits until every copy has come to this round, or has ended."""
    (folder / f"round-{number}-{COPY}").touch()
    names = [(folder / f"round-{number}-{copy}", folder / f"copy-{copy}.json") for copy in range(1, copies + 1)]
    end = time.monotonic() + 60
    while time.monotonic() < end and not all(here.exists() or ended.exists() for here, ended in names):
        time.sleep(0.001)


def rounds(arguments, report):
    path = arguments.file
    # Code shared by pieces of work lies beside their folder.
    sys.path.insert(0, str(path.parent.parent))
    spec = importlib.util.spec_from_file_location(f"work_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    # Names in a class's annotations are looked up in its module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for number in range(arguments.rounds):
        if arguments.copies:
            meet(arguments.folder, arguments.copies, number)
        results = []
        report["rounds"].append(results)
        module.work(lambda name, value: results.append([name, digest(value), short(value)]))
        if not results:
            raise ValueError(f"{path.name} recorded no result")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--packages", nargs="*", default=[])
    parser.add_argument("--faults", action="store_true", help="a fatal signal prints the stack of its thread")
    arguments = parser.parse_args()
    if arguments.faults:
        faulthandler.enable(all_threads=False)
    if arguments.seconds:
        # A hanging run reports where, before the time limit ends it.
        faulthandler.dump_traceback_later(arguments.seconds)
    report = {"rounds": [], "error": None, "versions": {}}
    try:
        for package in arguments.packages:
            report["versions"][package] = importlib.metadata.version(package)
        rounds(arguments, report)
    except BaseException as error:
        traceback.print_exc()
        report["error"] = traceback.format_exception_only(type(error), error)[-1].strip()
    path = arguments.folder / f"copy-{COPY}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(report))
    part.rename(path)
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.flush()
    return 1 if report["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
