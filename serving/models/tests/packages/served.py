"""Models that the tests package."""

import collections
import time

import torch
from torch import nn

from served_version import VERSION


class Scores(nn.Module):
    """Two inputs, a setting between them, a dict."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x, detailed: bool, lengths):
        scores = self.linear(x)
        assert detailed is True
        return {"scores": scores, "sums": scores.sum(1) * lengths, "absent": None}


class Addresses(nn.Module):
    """Where the weights are, and where the object is. The call takes long enough for another one to need another instance."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1000.0))

    def forward(self, x):
        time.sleep(0.5)
        return torch.tensor([self.weight.data_ptr(), id(self)])


Kept = collections.namedtuple("Kept", "kept view fresh addresses")


class Keeps(nn.Module):
    """Returns outputs that it keeps and outputs that it does not."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4))

    def forward(self, x):
        self.kept.add_(1)
        fresh = x * 2
        return Kept(self.kept, self.kept[1:], fresh, torch.tensor([x.data_ptr(), fresh.data_ptr()]))


class Batches(nn.Module):
    """Doubles, and says how large the batch is."""

    def forward(self, x):
        time.sleep(0.3)
        return x * 2, torch.full((len(x),), len(x))


class Version(nn.Module):
    """The version of the weights, and that of the code."""

    def __init__(self, version):
        super().__init__()
        # More than one page, so that weights that stay would show.
        self.weight = nn.Parameter(torch.full((4096,), float(version)))

    def forward(self, x):
        return torch.stack([self.weight.mean(), torch.tensor(float(VERSION))]) + 0 * x


class Fails(nn.Module):
    def forward(self, x):
        raise RuntimeError("not today")


class Lists(nn.Module):
    """A list of tensors cannot be an input."""

    def forward(self, images):
        return images[0]


class Half(nn.Module):
    """Numbers that numpy lacks."""

    def forward(self, x):
        return (x + x).t()


def batches():
    return Batches(), (torch.ones(2, 3),)


def mixes():
    """Its output for one row depends on the others, and their number shows in another place than the first."""
    return Mixes(), (torch.ones(2, 3),)


class Mixes(nn.Module):
    def forward(self, x):
        return x @ x.t()
