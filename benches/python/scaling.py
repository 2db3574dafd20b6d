"""The rivals of `scaling`: plain python processes that call one of the fifteen models.

    scaling.py MODEL EXPECTED CATALOGUE              one process
    scaling.py MODEL EXPECTED CATALOGUE --prefork N  makes the model, then gc.freeze() and N forked children

The model is that of catalogue.py in the folder CATALOGUE, from the installed implementation: stock torch.package does not
load every package that it writes. EXPECTED has the bytes that `call` of check.py gives, in the same folder. `contender.py`
says which orders they take. Interpreters import this module too, for `caller`.
"""

import argparse
import sys


def caller(model, example, expected):
    """A function without arguments that calls the model, and returns whether the result has the bits of the file."""
    import check
    import torch

    torch.set_num_threads(1)
    with open(expected, "rb") as file:
        bits = file.read()
    return lambda: check.call(model, example) == bits


class Made:
    """A model as `contender` wants it. Its results are compared here already."""

    expected = (True,)

    def __init__(self, name, expected):
        from catalogue import MODELS, made

        self.right = caller(*made(next(entry for entry in MODELS if entry.name == name)), expected)

    def call(self, _):
        return self.right()


def main():
    from contender import answer

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("expected")
    parser.add_argument("catalogue")
    parser.add_argument("--prefork", type=int, default=0)
    arguments = parser.parse_args()
    sys.path.append(arguments.catalogue)
    model = Made(arguments.model, arguments.expected)
    model.call(0)
    answer({"": model}, arguments.prefork)


if __name__ == "__main__":
    main()
