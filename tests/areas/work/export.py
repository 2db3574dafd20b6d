"""torch.export with dynamic shapes, save and load, decompositions, AOTInductor, torch.package"""

import io
import os

from common import FOLDER, perceptron, randn

import torch

NUMBER = iter(range(1000))


def exported():
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(perceptron(1), (randn(4, 8, seed=1),), dynamic_shapes=({0: batch},))
    outputs = [program.module()(randn(size, 8, seed=size)).detach() for size in (2, 5)]
    return program, [outputs, [str(node.target) for node in program.graph.nodes]]


def saved(program):
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    return loaded.module()(randn(3, 8, seed=2)).detach()


def decomposed(program):
    lowered = program.run_decompositions()
    return [lowered.module()(randn(3, 8, seed=3)).detach(), [str(node.target) for node in lowered.graph.nodes]]


def ahead_of_time():
    program = torch.export.export(perceptron(4), (randn(4, 8, seed=4),))
    path = os.path.join(FOLDER, f"model-{next(NUMBER)}.pt2")
    path = torch._inductor.aoti_compile_and_package(program, package_path=path)
    model = torch._inductor.aoti_load_package(path)
    return [model(randn(4, 8, seed=seed)).detach() for seed in (5, 6)]


def packaged():
    buffer = io.BytesIO()
    with torch.package.PackageExporter(buffer) as exporter:
        exporter.save_source_string("layers", "def scale(x):\n    return x * 3\n")
        exporter.extern("torch.**")
        exporter.save_pickle("model", "model.pkl", perceptron(7))
    buffer.seek(0)
    importer = torch.package.PackageImporter(buffer)
    x = importer.load_pickle("model", "model.pkl")(randn(2, 8, seed=8)).detach()
    return importer.import_module("layers").scale(x)


def work(tell):
    program, values = exported()
    tell("export", values)
    tell("export save and load", saved(program))
    tell("export decompositions", decomposed(program))
    tell("AOTInductor", ahead_of_time())
    tell("torch.package", packaged())
