"""Attention Is All You Need (Vaswani et al., 2017), section 6.3: English constituency parsing.

The sentence goes in as tokens, the parse tree comes out linearised, as a sequence of tokens: four layers, d_model 1024, a
vocabulary of 16,000 tokens (the setting for the WSJ portion alone), embeddings tied with the last projection.
"""

import math

import torch
from torch import nn

VOCABULARY = 16_000
WIDTH = 1024
LAYERS = 4
HEADS = 16
START = 1


def positions(length, width):
    """Sinusoids, section 3.5."""
    place = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000) / width))
    return torch.stack(((place * rate).sin(), (place * rate).cos()), 2).flatten(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x, memory, causal=False):
        def heads(y):
            return y.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(memory)), heads(self.value(memory))
        weights = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        if causal:
            later = torch.ones(weights.shape[-2:], dtype=torch.bool).triu(1)
            weights = weights.masked_fill(later, -math.inf)
        return self.out((weights.softmax(-1) @ value).transpose(1, 2).flatten(2))


def _feed_forward():
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.forwards = Attention(), _feed_forward()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x):
        x = self.norms[0](x + self.attend(x, x))
        return self.norms[1](x + self.forwards(x))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.look, self.forwards = Attention(), Attention(), _feed_forward()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, x, memory):
        x = self.norms[0](x + self.attend(x, x, causal=True))
        x = self.norms[1](x + self.look(x, memory))
        return self.norms[2](x + self.forwards(x))


class Parser(nn.Module):
    """Token ids of sentences to the token ids of their linearised trees, with the scores, by greedy decoding."""

    def __init__(self, tree_length=24):
        super().__init__()
        self.tree_length = tree_length
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embed.weight, std=WIDTH**-0.5)
        self.encoder = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.decoder = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.project = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.project.weight = self.embed.weight

    def _embed(self, tokens):
        return self.embed(tokens) * math.sqrt(WIDTH) + positions(tokens.shape[1], WIDTH)

    def forward(self, sentence):
        memory = self._embed(sentence)
        for layer in self.encoder:
            memory = layer(memory)
        tree = sentence.new_full((sentence.shape[0], 1), START)
        scores = []
        for _ in range(self.tree_length):
            x = self._embed(tree)
            for layer in self.decoder:
                x = layer(x, memory)
            scores.append(self.project(x[:, -1]))
            tree = torch.cat((tree, scores[-1].argmax(-1, keepdim=True)), 1)
        return tree, torch.stack(scores, 1)
