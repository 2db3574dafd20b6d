"""An interpreter that serves."""

import json

if packages >= 1:
    import numpy
if packages >= 2:
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten()).eval()
    example = torch.ones(2, 3, 16, 16)


def answer(number):
    """Some half millisecond of work, whose result is known."""
    total = sum(json.loads(json.dumps(list(range(number)))))
    if packages >= 1:
        total += int(numpy.arange(number).sum())
    if packages >= 2:
        with torch.no_grad():
            model(example)
            total += int(torch.arange(number).sum())
    return total
