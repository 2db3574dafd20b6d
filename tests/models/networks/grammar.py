"""The neural probabilistic context-free grammar that torch-struct's own paper and examples compute with.

Compound Probabilistic Context-Free Grammars for Grammar Induction (Kim et al., ACL 2019), section 2.2 and its appendix: 30
nonterminals, 60 preterminals, symbols of 256 numbers, a vocabulary of 10,000. Inside algorithm and marginals are
torch_struct's.
"""

import torch
import torch_struct
from torch import nn

VOCABULARY = 10_000
NONTERMINALS, PRETERMINALS, WIDTH = 30, 60, 256


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())

    def forward(self, x):
        return x + self.body(x)


def _mlp(outputs):
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), Residual(), Residual(), nn.Linear(WIDTH, outputs))


class NeuralGrammar(nn.Module):
    """Sentences to their log-probability, and to the probability that each span is a constituent."""

    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, WIDTH))
        self.nonterminals = nn.Parameter(torch.randn(NONTERMINALS, WIDTH))
        self.preterminals = nn.Parameter(torch.randn(PRETERMINALS, WIDTH))
        self.words = _mlp(VOCABULARY)
        self.roots = _mlp(NONTERMINALS)
        self.rules = nn.Linear(WIDTH, (NONTERMINALS + PRETERMINALS) ** 2)

    def forward(self, sentences):
        batch, length = sentences.shape
        symbols = NONTERMINALS + PRETERMINALS
        words = self.words(self.preterminals).log_softmax(-1)
        terms = words.T[sentences]
        rules = self.rules(self.nonterminals).log_softmax(-1).view(NONTERMINALS, symbols, symbols)
        roots = self.roots(self.start).log_softmax(-1)
        grammar = torch_struct.SentCFG(
            (terms, rules.expand(batch, -1, -1, -1).contiguous(), roots.expand(batch, -1).contiguous()),
            lengths=torch.full((batch,), length),
        )
        spans = grammar.marginals
        return grammar.partition, *(part.detach() for part in spans)
