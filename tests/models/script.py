"""Writes one of the models as TorchScript, where torch.jit.script takes it.

    script.py NAME FOLDER

The module's `forward` takes nothing: what the model is called with lies in it. NAME.ts is the module and NAME.ts.expected
the bytes of its result's tensors. One line of JSON says why there is none, or null: `{"reason": ...}`.
"""

import json
import os
import re
import sys
import warnings

import check
import torch
from catalogue import MODELS, made


class One(torch.nn.Module):
    def __init__(self, model, first):
        super().__init__()
        self.model, self.first = model, first

    def forward(self):
        return self.model(self.first)


class Two(torch.nn.Module):
    def __init__(self, model, first, second):
        super().__init__()
        self.model, self.first, self.second = model, first, second

    def forward(self):
        return self.model(self.first, self.second)


class Three(torch.nn.Module):
    def __init__(self, model, first, second, third):
        super().__init__()
        self.model, self.first, self.second, self.third = model, first, second, third

    def forward(self):
        return self.model(self.first, self.second, self.third)


def script(entry, folder):
    """Why the module is missing, or None."""
    if entry.draws:
        return "it draws random numbers"
    torch.set_num_threads(1)
    model, example = made(entry)
    if len(example) > 3:
        return f"it is called with {len(example)} arguments, for which there is no wrapper here"
    expected = check.call(model, example)
    try:
        scripted = torch.jit.script([One, Two, Three][len(example) - 1](model, *example).eval())
        results = [scripted() for _ in range(3)]
    except Exception as error:
        # The compiler's messages end with the source. Their first line says what it does not take, with addresses.
        line = next((line for line in str(error).splitlines() if line.strip()), "")
        return f"{type(error).__name__}: {re.sub(r' [(]of Python compilation unit at: 0x[0-9a-f]+[)]', '', line)}"
    if any(check.encode(result) != expected for result in results):
        return f"other bits: {check.difference(expected, check.encode(results[-1]))}"
    scripted.save(os.path.join(folder, f"{entry.name}.ts"))
    with open(os.path.join(folder, f"{entry.name}.ts.expected"), "wb") as file:
        for _, tensor in check.leaves(results[-1]):
            file.write(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return None


def main():
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    name, folder = sys.argv[1:]
    print(json.dumps({"reason": script(next(entry for entry in MODELS if entry.name == name), folder)}))


if __name__ == "__main__":
    main()
