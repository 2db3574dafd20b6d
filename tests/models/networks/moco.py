"""Momentum Contrast for Unsupervised Visual Representation Learning (He et al., CVPR 2020).

Two ResNet-50 encoders to 128 numbers, of which the second follows the first by momentum, and a queue of 65,536 keys, as in the
paper's section 3. The backbone is torchvision's.
"""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 128
KEYS = 65_536
MOMENTUM = 0.999
TEMPERATURE = 0.07


class MoCo(nn.Module):
    """Two views of each image to the logits of algorithm 1: the right key first, the queue's behind."""

    def __init__(self, encoder):
        """`encoder` makes a network with WIDTH outputs."""
        super().__init__()
        self.query = encoder()
        self.key = encoder()
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(WIDTH, KEYS), dim=0))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def follow(self):
        """The key encoder comes a little closer to the query encoder."""
        for key, query in zip(self.key.parameters(), self.query.parameters(), strict=True):
            key.lerp_(query, 1 - MOMENTUM)

    @torch.no_grad()
    def enqueue(self, keys):
        place = int(self.place)
        self.queue[:, place : place + len(keys)] = keys.T
        self.place.fill_((place + len(keys)) % KEYS)

    def forward(self, first, second):
        queries = F.normalize(self.query(first), dim=1)
        if self.training:
            self.follow()
        with torch.no_grad():
            keys = F.normalize(self.key(second), dim=1)
        right = (queries * keys).sum(1, keepdim=True)
        logits = torch.cat((right, queries @ self.queue), 1) / TEMPERATURE
        if self.training:
            self.enqueue(keys)
        return logits
