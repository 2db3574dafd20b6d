"""Writes packages by stock torch.package, and what their models compute in plain Python.

    python export.py FOLDER    NAME.pt, NAME.expected: the bytes of the outputs, one behind the other
    python export.py FOLDER VERSIONS KIND    version_0.pt and so on: weights and code of a version, as tensors or arrays
"""

import pathlib
import sys

import numpy as np
import plain
import served
import torch
from torch.package import PackageExporter

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
torch.manual_seed(7)
# The modules that plain models take from the machine.
machine = ("ctypes", "sys", "time", "numpy.**")


def export(name, model, example=None, version=None, external=("torch.**", "numpy.**")):
    with PackageExporter(folder / f"{name}.pt") as exporter:
        exporter.extern([*external])
        if version is not None:
            exporter.save_source_string("served_version", f"VERSION = {version}\n")
        exporter.intern(["served", "served_version", "plain"])
        exporter.save_pickle("model", "model.pkl", model)
        if example is not None:
            exporter.save_pickle("model", "example.pkl", example)
    return model


if len(sys.argv) > 2:
    for version in range(int(sys.argv[2]) + 1):
        name = f"version_{version}"
        if sys.argv[3] == "tensors":
            export(name, served.Version(version), (torch.zeros(2),), version)
        else:
            example = (np.zeros(2, np.float32),)
            export(name, plain.Version(version), example, version, machine)
    sys.exit()

x = torch.arange(6.0).reshape(2, 3)
model = export("scores", served.Scores(), (x, True, torch.tensor([1.0, 2.0])))
with torch.no_grad():
    outputs = model(x, True, torch.tensor([1.0, 2.0]))
bits = outputs["scores"].numpy().tobytes() + outputs["sums"].numpy().tobytes()
(folder / "scores.expected").write_bytes(bits)
export("addresses", served.Addresses(), (torch.zeros(1),))
export("keeps", served.Keeps(), (torch.zeros(1024),))
export("batches", served.Batches(), (torch.zeros(1, 3),))
export("silent", served.Batches())
export("fails", served.Fails(), (torch.zeros(1),))
export("lists", served.Lists(), ([torch.zeros(1)],))
export("half", served.Half(), (torch.zeros(2, 3, dtype=torch.bfloat16),))
texts = np.array([[b"a", b"b"]], dtype=object)
export("texts", plain.Texts(), (texts, np.ones((1, 2), np.int16)), external=machine)
for name, case in [("misbehaves", 0), ("loops", 1), ("sleeps", 2)]:
    export(name, plain.Misbehaves(), (np.full(1, case, np.float32),), external=machine)
