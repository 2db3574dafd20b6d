"""Texts through a tokenizer and a small transformer, as a search makes its vectors of them."""

import os
import random

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import nn
from workloads import CALLS, digest

# The number of words in the texts' language, and the tokenizer's vocabulary.
WORDS, VOCABULARY = 3_000, 4_000
# Texts of a call, and the greatest number of their tokens.
BATCH, LENGTH = 4, 64
WIDTH, HEADS, LAYERS = 128, 4, 2


class Encoder(nn.Module):
    """A vector for each text: the mean of its tokens' vectors."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, tokens, mask):
        vectors = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        vectors = self.layers(vectors, src_key_padding_mask=mask == 0)
        weights = mask.unsqueeze(2).to(vectors.dtype)
        return (vectors * weights).sum(1) / weights.sum(1)


def _texts(seed, count):
    """Sentences of a made-up language, in which few words are frequent as in real ones."""
    letters = random.Random(7)
    syllables = [first + vowel for first in "bdfgklmnprstvz" for vowel in ("a", "e", "i", "o", "u", "ei", "an")]
    words = ["".join(letters.choices(syllables, k=letters.randrange(1, 5))) for _ in range(WORDS)]
    weights = [1 / (rank + 3) for rank in range(WORDS)]
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, weights, k=draw.randrange(12, 40))).capitalize() + "." for _ in range(count)]


def _files(folder):
    return os.path.join(folder, "vocabulary.json"), os.path.join(folder, "transformer.pt")


def prepare(folder):
    """Trains the tokenizer, and makes random weights."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["[PAD]", "[UNK]"], min_frequency=1, show_progress=False
    )
    tokenizer.train_from_iterator(_texts(CALLS, 2_000), trainer)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    tokenizer.enable_truncation(LENGTH)
    vocabulary, weights = _files(folder)
    tokenizer.save(vocabulary)
    torch.manual_seed(7)
    torch.save(Encoder().eval().requires_grad_(False), weights)


def make(folder):
    torch.set_num_threads(1)
    vocabulary, weights = _files(folder)
    tokenizer = Tokenizer.from_file(vocabulary)
    # Pages of the file: all workers of a machine have them once.
    model = torch.load(weights, weights_only=False, mmap=True)
    inputs = [_texts(seed, BATCH) for seed in range(CALLS)]

    def call(n):
        encodings = tokenizer.encode_batch(inputs[n])
        tokens = torch.tensor([encoding.ids for encoding in encodings])
        mask = torch.tensor([encoding.attention_mask for encoding in encodings])
        with torch.inference_mode():
            vectors = model(tokens, mask)
        return digest(vectors.numpy().tobytes())

    return call
