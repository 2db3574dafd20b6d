"""Exports torchvision models by stock torch.package, each with an input and its output.

    python export_packages.py FOLDER

Input and output are raw float32. One torch thread, so that sums are added in one order.
"""

import pathlib
import sys

import torch
import torchvision
from torch.package import PackageExporter

folder = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)
for name in ("mobilenet_v3_small", "resnet18"):
    torch.manual_seed(7)
    model = getattr(torchvision.models, name)(weights=None).eval()
    x = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        y = model(x)
    with PackageExporter(folder / f"{name}.pt") as exporter:
        exporter.extern(["torch.**", "numpy.**", "PIL.**", "sys", "io"])
        exporter.intern("torchvision.**")
        exporter.save_pickle("model", "model.pkl", model)
        exporter.save_text("model", "labels.txt", "one\ntwo\n")
    (folder / f"{name}.input").write_bytes(x.numpy().tobytes())
    (folder / f"{name}.output").write_bytes(y.numpy().tobytes())
