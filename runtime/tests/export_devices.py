"""Exports a small model by stock torch.package as if its tensors were on other devices.

    python export_devices.py FOLDER

Writes FOLDER/LOCATION.pt for each location that torch's pickles shall name (a GPU is not needed: the location is a text in the
pickle), and what the model computes, raw float32.
"""

import pathlib
import sys

import torch
from torch.package import PackageExporter, package_exporter

folder = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(11)
layers = [torch.nn.Linear(16, 16) for _ in range(6)]
# A tied weight, and an empty buffer.
layers[3].weight = layers[1].weight
layers[0].register_buffer("nothing", torch.empty(0))
model = torch.nn.Sequential(*layers).eval().requires_grad_(False)
x = torch.randn(1, 16)
for location in ("cpu", "cuda:0", "cuda:99", "fake:0", "fake:9"):
    package_exporter.location_tag = lambda storage: location
    with PackageExporter(folder / f"{location.replace(':', '_')}.pt") as exporter:
        exporter.extern("torch.**")
        exporter.save_pickle("model", "model.pkl", model)
        exporter.save_pickle("model", "script.pkl", torch.jit.trace(model, x))
(folder / "input").write_bytes(x.numpy().tobytes())
(folder / "output").write_bytes(model(x).numpy().tobytes())
