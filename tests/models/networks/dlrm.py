"""Deep Learning Recommendation Model for Personalization and Recommendation Systems (Naumov et al., 2019).

The model of the paper's profile (section 5.2): 512 continuous features, 8 tables of a million embeddings of 64 numbers, a bottom
MLP of 512-512-64 and a top MLP of 1024-1024-1024-1; 515 million parameters.
"""

import torch
from torch import nn

CONTINUOUS = 512
TABLES = 8
ROWS = 1_000_000
WIDTH = 64


def _mlp(*sizes, last):
    layers = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)


class DLRM(nn.Module):
    """The probability of a click."""

    def __init__(self, rows=ROWS):
        super().__init__()
        self.bottom = _mlp(CONTINUOUS, 512, 512, WIDTH, last=nn.ReLU())
        tables = (nn.EmbeddingBag(rows, WIDTH, mode="sum", _weight=_table(rows)) for _ in range(TABLES))
        self.tables = nn.ModuleList(tables)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = _mlp(WIDTH + pairs, 1024, 1024, 1024, 1, last=nn.Sigmoid())
        self.register_buffer("lower", torch.tril_indices(TABLES + 1, TABLES + 1, -1), persistent=False)

    def forward(self, continuous, indices, offsets):
        """`indices` and `offsets` of the bags have a row for each table."""
        dense = self.bottom(continuous)
        sparse = [table(i, o) for table, i, o in zip(self.tables, indices, offsets, strict=True)]
        vectors = torch.stack((dense, *sparse), 1)
        products = vectors @ vectors.transpose(1, 2)
        return self.top(torch.cat((dense, products[:, self.lower[0], self.lower[1]]), 1))


def _table(rows):
    # Section 4 of the paper's code initialises by the number of rows.
    return torch.empty(rows, WIDTH).uniform_(-(rows**-0.5), rows**-0.5)
