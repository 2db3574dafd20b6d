"""random numbers after manual_seed, dropout, initial weights on the device, the state of the generator, a graph that draws, random boxes for torchvision"""

from common import FOLDER  # noqa: F401

import torch
import torchvision

DEVICE = torch.device("cuda")


def drawn():
    torch.manual_seed(11)
    numbers = [torch.rand(1000, device=DEVICE), torch.randn(1000, device=DEVICE), torch.randperm(200, device=DEVICE)]
    return [tensor.cpu() for tensor in numbers]


def dropout():
    torch.cuda.manual_seed(12)
    layer = torch.nn.Dropout(0.4).to(DEVICE)
    ones = torch.ones(64, 64, device=DEVICE)
    return [layer(ones).cpu() for _ in range(3)]


def weights():
    torch.manual_seed(13)
    with DEVICE:
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
    return [parameter.detach().cpu() for parameter in model.parameters()]


def state():
    torch.cuda.manual_seed(14)
    torch.rand(17, device=DEVICE)
    kept = torch.cuda.get_rng_state()
    first = torch.rand(9, device=DEVICE).cpu()
    torch.cuda.set_rng_state(kept)
    return [kept, first, torch.rand(9, device=DEVICE).cpu(), torch.cuda.initial_seed()]


def graph():
    torch.cuda.manual_seed(15)
    noise = torch.zeros(256, device=DEVICE)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        noise.copy_(torch.randn(256, device=DEVICE))
    seen = []
    for _ in range(4):
        recorded.replay()
        seen.append(noise.cpu())
    return seen


def own_generator():
    generator = torch.Generator(DEVICE).manual_seed(16)
    torch.rand(5, device=DEVICE)
    return torch.rand(100, device=DEVICE, generator=generator).cpu()


def boxes():
    torch.manual_seed(17)
    corners = torch.rand(64, 2, device=DEVICE) * 20
    boxes = torch.cat([corners, corners + torch.rand(64, 2, device=DEVICE) * 10 + 1], 1)
    kept = torchvision.ops.nms(boxes, torch.rand(64, device=DEVICE), 0.4)
    features = torch.rand(1, 4, 32, 32, device=DEVICE)
    pooled = torchvision.ops.roi_align(features, [boxes[:8]], output_size=(5, 5))
    return [kept.cpu(), pooled.cpu()]


def work(tell):
    tell("manual_seed and rand", drawn())
    tell("dropout", dropout())
    tell("initial weights", weights())
    tell("get_rng_state", state())
    tell("a graph that draws", graph())
    tell("a generator of its own", own_generator())
    tell("random boxes", boxes())
