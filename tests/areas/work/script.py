"""TorchScript: a scripted ResNet-18, classes, interfaces and control flow, freezing, save and load, fork and wait, errors with Python's lines"""

import io
from typing import Dict, List

from common import perceptron, raised, rand, randn, seeded

import torch
import torchvision


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start

    def add(self, number: int) -> int:
        self.count += number
        return self.count


@torch.jit.script
def control(x: torch.Tensor, words: List[str]) -> Dict[str, torch.Tensor]:
    results: Dict[str, torch.Tensor] = {}
    counter = Counter(1)
    for index, word in enumerate(words):
        if len(word) > 3:
            results[word] = x * counter.add(index)
        else:
            results[word] = x - index
    return results


@torch.jit.script
def forked(x: torch.Tensor) -> torch.Tensor:
    futures = [torch.jit.fork(torch.sin, x * float(number)) for number in range(4)]
    return torch.stack([torch.jit.wait(future) for future in futures])


@torch.jit.script
def refuses(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        raise ValueError("positive")
    return x


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = perceptron(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        if bool(y.sum() > 0):
            y = y * 2
        return y

    @torch.jit.export
    def other(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) - 1


def frozen():
    model = torch.jit.freeze(torch.jit.script(Gate().eval()), preserved_attrs=["other"])
    x = rand(4, 8, seed=4)
    with torch.no_grad():
        return [[model(x) for _ in range(3)], model.other(x), model.graph.findNode("prim::If") is not None]


def saved():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Gate()), buffer, _extra_files={"note": "kept"})
    buffer.seek(0)
    files = {"note": ""}
    loaded = torch.jit.load(buffer, _extra_files=files)
    return [loaded(rand(4, 8, seed=5)).detach(), files["note"], loaded.code]


def work(tell):
    model, image = seeded(torchvision.models.resnet18(weights=None), 1).eval(), randn(1, 3, 64, 64, seed=2)
    with torch.no_grad():
        scripted = torch.jit.script(model)
        tell("scripted ResNet-18", [scripted(image) for _ in range(3)])
    tell("script's classes and control flow", control(randn(3, seed=6), ["a", "word", "other"]))
    tell("script fork and wait", forked(randn(5, seed=7)))
    tell("script freeze", frozen())
    tell("script save and load", saved())
    error = raised(lambda: refuses(torch.ones(2)), torch.jit.Error)
    tell("script errors", [error, refuses(-torch.ones(2))])
    traced = torch.jit.trace(perceptron(8), rand(4, 8, seed=8))
    tell("script of a trace", torch.jit.script(torch.nn.Sequential(traced, torch.nn.Tanh()))(rand(4, 8, seed=9)).detach())
