"""The models that serving systems are compared by. All systems run this code, on the same inputs.

A request's input is bytes: elements of one type, or texts as a JSON list. `make(model, folder)` returns the function that
maps an input to the output's array. A system's own file brings the bytes in and out in the best form that the system has.
"""

import json
import os
import sys

import numpy

# The type of the elements, and the shapes: (input's type, input's shape, output's type, output's shape). Inputs of type
# BYTES are texts.
MODELS = {
    "blank": ("FP32", [16], "FP32", [16]),
    "mobilenet": ("FP32", [1, 3, 224, 224], "FP32", [1, 1000]),
    "text": ("BYTES", [4], "FP32", [4, 128]),
    "megabyte": ("UINT8", [1 << 20], "UINT64", [1]),
    "work": ("FP32", [64], "FP32", [64]),
}
DTYPES = {"FP32": numpy.float32, "UINT8": numpy.uint8, "UINT64": numpy.uint64}


def array(model, body):
    """Converts the input's bytes to the model's input: an array, or a list of texts."""
    kind, shape, _, _ = MODELS[model]
    if kind == "BYTES":
        return json.loads(body)
    return numpy.frombuffer(body, DTYPES[kind]).reshape(shape)


def _mobilenet(_folder):
    import torch
    import torchvision

    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = torchvision.models.mobilenet_v3_small(weights=None).eval()

    def call(image):
        with torch.inference_mode():
            # torch warns of arrays that it must not write to; the model only reads.
            image = image if image.flags.writeable else image.copy()
            return network(torch.from_numpy(image)).numpy()

    return call


def _text(folder):
    import torch
    from tokenizers import Tokenizer

    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from workloads import transformer

    torch.set_num_threads(1)
    vocabulary, weights = transformer._files(folder)
    tokenizer = Tokenizer.from_file(vocabulary)
    encoder = torch.load(weights, weights_only=False, mmap=True)

    def call(texts):
        encodings = tokenizer.encode_batch(texts)
        tokens = torch.tensor([encoding.ids for encoding in encodings])
        mask = torch.tensor([encoding.attention_mask for encoding in encodings])
        with torch.inference_mode():
            return encoder(tokens, mask).numpy()

    return call


def _megabyte(_folder):
    # Each byte counts, and little is computed: the request is what costs.
    return lambda data: numpy.bitwise_xor.reduce(data.view(numpy.uint64), keepdims=True)


def _work(_folder):
    matrix = numpy.random.default_rng(7).standard_normal((64, 64)).astype(numpy.float32) / 8

    def call(vector):
        # Some milliseconds of Python code and small calls of numpy.
        for _ in range(1000):
            vector = numpy.tanh(matrix @ vector)
        return vector

    return call


def make(model, folder):
    makers = {"mobilenet": _mobilenet, "text": _text, "megabyte": _megabyte, "work": _work}
    return makers[model](folder) if model in makers else lambda data: data
