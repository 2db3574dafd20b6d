"""graphs by torch.cuda.graph and make_graphed_callables, side by side with work of other copies, in each mode of capture"""

from common import randn, seeded

import torch

DEVICE = torch.device("cuda")


def replayed(mode):
    model = seeded(torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)), 1).to(DEVICE)
    given = torch.zeros(4, 32, device=DEVICE)
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(warm):
        for _ in range(3):
            model(given)
    torch.cuda.current_stream().wait_stream(warm)
    recorded = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(recorded, capture_error_mode=mode):
        result = model(given)
    found = []
    for seed in range(3):
        given.copy_(randn(4, 32, seed=seed))
        recorded.replay()
        found.append(result.cpu())
    return found


def trained():
    model = seeded(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()), 2).to(DEVICE)
    graphed = torch.cuda.make_graphed_callables(model, (torch.zeros(8, 16, device=DEVICE, requires_grad=True),))
    x = randn(8, 16, seed=3).to(DEVICE).requires_grad_()
    graphed(x).square().sum().backward()
    return [x.grad.cpu(), model[0].weight.grad.cpu()]


def meanwhile():
    """Work that another copy's capture must not disturb: allocating memory, and waiting for the device."""
    for size in range(1, 40):
        torch.empty(size << 20, device=DEVICE)
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
    return True


def work(tell):
    for repeated in range(5):
        for mode in "global", "thread_local", "relaxed":
            tell(f"a graph, {mode}", replayed(mode))
    tell("a graph of a training step", trained())
    tell("memory and waiting", meanwhile())
