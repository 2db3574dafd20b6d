"""An image through torchvision's resnet18 with random weights."""

import os

import torch
import torchvision
from workloads import CALLS, digest


def _file(folder):
    return os.path.join(folder, "resnet18.pt")


def prepare(folder):
    """Makes random weights."""
    torch.manual_seed(7)
    model = torchvision.models.resnet18(weights=None)
    torch.save(model.eval().requires_grad_(False), _file(folder))


def make(folder):
    torch.set_num_threads(1)
    # Pages of the file: all workers of a machine have them once.
    model = torch.load(_file(folder), weights_only=False, mmap=True)
    images = torch.rand(CALLS, 1, 3, 224, 224, generator=torch.Generator().manual_seed(8))

    def call(n):
        with torch.inference_mode():
            return digest(model(images[n]).numpy().tobytes())

    return call
