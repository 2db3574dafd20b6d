"""torch.compile of a model with dropout and of random initial weights, a kernel in Triton"""

from common import randn, seeded

import torch
import triton
import triton.language as tl

DEVICE = torch.device("cuda")


@triton.jit
def add_kernel(x, y, result, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(result + places, tl.load(x + places, mask=inside) + tl.load(y + places, mask=inside), mask=inside)


def kernel():
    x, y = randn(1000, seed=1).to(DEVICE), randn(1000, seed=2).to(DEVICE)
    result = torch.empty_like(x)
    add_kernel[(triton.cdiv(1000, 256),)](x, y, result, 1000, BLOCK=256)
    return result.cpu()


def dropout():
    torch._dynamo.reset()
    layers = torch.nn.Linear(32, 64), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    model = torch.compile(seeded(torch.nn.Sequential(*layers), 3).to(DEVICE))
    x = randn(16, 32, seed=4).to(DEVICE)
    torch.manual_seed(5)
    return [model(x).detach().cpu() for _ in range(3)]


def initial():
    torch.manual_seed(6)
    with DEVICE:
        model = torch.nn.Linear(16, 16)
    return torch.compile(lambda x: torch.sin(model(x)))(randn(8, 16, seed=7).to(DEVICE)).detach().cpu()


def work(tell):
    tell("a kernel in Triton", kernel())
    tell("torch.compile with dropout", dropout())
    tell("torch.compile of random weights", initial())
