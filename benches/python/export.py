"""Exports the models of the comparison with stock torch.package, and what plain python computes with them.

    export.py FOLDER

Writes NAME.pt (a package with model/model.pkl and model/example.pkl, as torch::deploy's examples have them), NAME.inputs and
NAME.expected (little-endian float32) for each model, and manifest.json. Weights and inputs come from fixed seeds; the expected
outputs come from the model as torchvision made it, which never went through a package.
"""

import json
import os
import sys
import warnings

import torch
import torchvision
from torch.package import PackageExporter

MODELS = {"mobilenet_v3_small": 1, "resnet18": 2}
INPUTS = 8


def export(name, seed, folder):
    torch.manual_seed(seed)
    model = getattr(torchvision.models, name)(weights=None).eval().requires_grad_(False)
    inputs = torch.randn(INPUTS, 1, 3, 224, 224)
    # One call for each input: batch 1 is measured, and another batch size may take other kernels.
    outputs = torch.stack([model(image) for image in inputs])
    path = os.path.join(folder, f"{name}.pt")
    with PackageExporter(path) as exporter:
        exporter.intern(["torchvision.models.**", "torchvision.ops.misc", "torchvision.utils", "torchvision._utils"])
        exporter.extern(["torch.**", "torchvision.**", "numpy.**", "PIL.**"])
        exporter.mock("**")
        exporter.save_pickle("model", "model.pkl", model)
        exporter.save_pickle("model", "example.pkl", (inputs[0],))
    for kind, tensor in (("inputs", inputs), ("expected", outputs)):
        with open(os.path.join(folder, f"{name}.{kind}"), "wb") as file:
            file.write(tensor.numpy().astype("<f4").tobytes())
    return {
        "name": name,
        "package": os.path.abspath(path),
        "inputs": os.path.abspath(os.path.join(folder, f"{name}.inputs")),
        "expected": os.path.abspath(os.path.join(folder, f"{name}.expected")),
        "count": INPUTS,
        "input_shape": list(inputs.shape[1:]),
        "output_shape": list(outputs.shape[1:]),
        "parameter_bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
    }


def main():
    (folder,) = sys.argv[1:]
    # torch.package itself uses TypedStorage.
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    manifest = [export(name, seed, folder) for name, seed in MODELS.items()]
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        json.dump(manifest, file, indent=1)


if __name__ == "__main__":
    main()
