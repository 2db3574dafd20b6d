"""The rivals: plain python processes that run the packages with stock torch.

    worker.py MANIFEST              one process
    worker.py MANIFEST --prefork N  imports and loads, then gc.freeze() and N forked children

`contender.py` says which orders they take.
"""

import argparse
import json

import numpy as np
import torch
from contender import answer
from torch.package import PackageImporter


class Model:
    def __init__(self, entry):
        self.module = PackageImporter(entry["package"]).load_pickle("model", "model.pkl")
        shape = [entry["count"], *entry["input_shape"]]
        self.inputs = torch.from_numpy(np.fromfile(entry["inputs"], "<f4").reshape(shape))
        expected = np.fromfile(entry["expected"], "<f4").reshape(entry["count"], -1)
        self.expected = [row.tobytes() for row in expected]

    def call(self, index):
        return self.module(self.inputs[index % len(self.inputs)]).numpy().tobytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("manifest")
    parser.add_argument("--prefork", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with open(arguments.manifest) as file:
        models = {entry["name"]: Model(entry) for entry in json.load(file)}
    for model in models.values():
        model.call(0)
    answer(models, arguments.prefork)


if __name__ == "__main__":
    main()
