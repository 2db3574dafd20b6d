"""Clicks by DLRM (Naumov et al., 2019): embeddings of categories, their products, and two networks of dense layers.

The network is that of `cargo xtask lab models` with a tenth of the rows in its tables.
"""

import os
import pathlib
import sys

import torch
from workloads import CALLS, digest

ROWS = 100_000
# Users of a call, and the categories of each in a table.
BATCH, BAG = 16, 4

_NETWORKS = pathlib.Path(__file__).parents[3] / "tests" / "models"


def _file(folder):
    return os.path.join(folder, "dlrm.pt")


def _network():
    if str(_NETWORKS) not in sys.path:
        sys.path.append(str(_NETWORKS))
    from networks import dlrm

    return dlrm


def prepare(folder):
    """Makes random weights."""
    network = _network()
    torch.manual_seed(7)
    torch.save(network.DLRM(ROWS).eval().requires_grad_(False), _file(folder))


def make(folder):
    torch.set_num_threads(1)
    network = _network()
    # Pages of the file: all workers of a machine have them once.
    model = torch.load(_file(folder), weights_only=False, mmap=True)
    draw = torch.Generator().manual_seed(8)
    offsets = torch.arange(0, BATCH * BAG, BAG).expand(network.TABLES, -1).contiguous()
    inputs = [
        (
            torch.rand(BATCH, network.CONTINUOUS, generator=draw),
            torch.randint(ROWS, (network.TABLES, BATCH * BAG), generator=draw),
        )
        for _ in range(CALLS)
    ]

    def call(n):
        continuous, indices = inputs[n]
        with torch.inference_mode():
            return digest(model(continuous, indices, offsets).numpy().tobytes())

    return call
