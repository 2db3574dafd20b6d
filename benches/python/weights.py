"""A model of BERT-base's size in a package, and how long stock torch.package takes to its first output.

    weights.py export FOLDER    writes FOLDER/encoder.pt (model/model.pkl, model/example.pkl) and encoder.expected
    weights.py first PACKAGE    answers the order `grow` of orders.py: two latencies, of PackageImporter and load_pickle, and of
                                the first call; torch is imported
"""

import importlib
import os
import sys
import time
import warnings

import torch
from torch.package import PackageExporter, PackageImporter

# The sizes of BERT-base (Devlin et al., 2018): 12 layers of 768 with 12 heads, 30,522 words, 512 places.
MODULE = '''
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.words = nn.Embedding(30522, 768)
        self.places = nn.Embedding(512, 768)
        self.norm = nn.LayerNorm(768)
        layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.pooler = nn.Linear(768, 768)

    def forward(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        hidden = self.norm(self.words(words) + self.places(places))
        return torch.tanh(self.pooler(self.layers(hidden)[:, 0]))
'''


def export(folder, layers=12):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "encoder_model.py")
    with open(path, "w") as file:
        file.write(MODULE)
    sys.path.insert(0, folder)
    module = importlib.import_module("encoder_model")
    torch.manual_seed(3)
    model = module.Encoder(layers).eval().requires_grad_(False)
    words = torch.randint(0, 30522, (1, 16))
    with open(os.path.join(folder, "encoder.expected"), "wb") as file:
        file.write(model(words).numpy().astype("<f4").tobytes())
    with PackageExporter(os.path.join(folder, "encoder.pt")) as exporter:
        exporter.intern("encoder_model")
        exporter.save_pickle("model", "model.pkl", model)
        exporter.save_pickle("model", "example.pkl", (words,))
    # Freshly written pages count as private dirty memory of their mappers until they are written back.
    os.sync()


def first(path):
    from orders import answer_orders, ready

    def grow(**_):
        begin = time.perf_counter()
        importer = PackageImporter(path)
        model = importer.load_pickle("model", "model.pkl")
        example = importer.load_pickle("model", "example.pkl")
        loaded = time.perf_counter()
        model(*example)
        return {"latencies_us": [(loaded - begin) * 1e6, (time.perf_counter() - loaded) * 1e6]}

    ready()
    answer_orders(grow=grow)


if __name__ == "__main__":
    # torch.package itself uses TypedStorage.
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    torch.set_num_threads(1)
    {"export": export, "first": first}[sys.argv[1]](sys.argv[2])
