"""training, autocast, attention, convolutions, linear algebra, Fourier transforms, sparse matrices, embeddings, TorchScript, streams and events, pinned memory, DLPack, allocator, profiler"""

from common import randn, seeded

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

DEVICE = torch.device("cuda")


def training():
    layers = torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)
    model = seeded(torch.nn.Sequential(*layers), 1).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = randn(64, 16, seed=2).to(DEVICE), randn(64, 4, seed=3).to(DEVICE)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def autocast():
    model = seeded(torch.nn.Linear(64, 64), 4).to(DEVICE)
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for kind in torch.float16, torch.bfloat16:
        with torch.autocast("cuda", kind):
            output = model(randn(8, 64, seed=5).to(DEVICE))
            loss = output.float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found += [output.float().cpu(), loss.item(), scaler.get_scale()]
    return found


def attention():
    query, key, value = (randn(2, 4, 64, 32, seed=seed).to(DEVICE, torch.float16) for seed in range(3))
    found = []
    for backend in SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION:
        with sdpa_kernel(backend):
            found.append(scaled_dot_product_attention(query, key, value, is_causal=True).float().cpu())
    return found


def convolution():
    torch.backends.cudnn.deterministic = True
    model = seeded(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)), 6).to(DEVICE).eval()
    with torch.no_grad():
        return [model(randn(2, 3, 32, 32, seed=7).to(DEVICE)).cpu(), torch.backends.cudnn.version()]


def linear_algebra():
    matrix = randn(24, 24, seed=8).to(DEVICE)
    positive = matrix @ matrix.T + 24 * torch.eye(24, device=DEVICE)
    factor = torch.linalg.cholesky(positive)
    values = torch.linalg.eigvalsh(positive)
    solved = torch.linalg.solve(positive, matrix)
    singular = torch.linalg.svdvals(matrix)
    return [tensor.cpu() for tensor in (factor, values, solved, singular, torch.linalg.inv(positive))]


def transforms():
    signal = randn(8, 128, seed=9).to(DEVICE)
    return [torch.fft.rfft(signal).abs().cpu(), torch.fft.irfft(torch.fft.rfft(signal), n=128).cpu()]


def sparse():
    dense = (randn(32, 32, seed=10) > 1).float().to(DEVICE)
    return (dense.to_sparse_csr() @ randn(32, 4, seed=11).to(DEVICE)).cpu()


def embeddings():
    table = seeded(torch.nn.Embedding(50, 8), 12).to(DEVICE)
    bag = torch.nn.EmbeddingBag.from_pretrained(table.weight.detach(), mode="sum")
    words = torch.arange(30, device=DEVICE).reshape(5, 6)
    return [table(words).detach().cpu(), bag(words).cpu(), torch.sort(table.weight[:, 0])[1].cpu()]


def script():
    @torch.jit.script
    def scaled(x: torch.Tensor, factor: float):
        for _ in range(3):
            x = torch.relu(x * factor - 0.1)
        return x

    return [scaled(randn(100, seed=13).to(DEVICE), 1.3).cpu() for _ in range(3)]


def streams():
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    source = randn(1 << 16, seed=14).pin_memory()
    with torch.cuda.stream(stream):
        there = source.to(DEVICE, non_blocking=True)
        squared = there.square()
        event.record()
    torch.cuda.current_stream().wait_event(event)
    total = squared.double().sum()
    event.synchronize()
    return [event.query(), stream.query(), total.item()]


def exchanged():
    tensor = randn(10, seed=15).to(DEVICE)
    back = torch.from_dlpack(tensor)
    return [back.data_ptr() == tensor.data_ptr(), back.cpu()]


def allocator():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    kept = [torch.empty(1 << 20, device=DEVICE) for _ in range(4)]
    grown = torch.cuda.memory_allocated() - before
    del kept
    try:
        torch.empty(1 << 60, dtype=torch.uint8, device=DEVICE)
    except torch.OutOfMemoryError:
        return [grown, torch.cuda.memory_allocated() - before]


def profiler():
    from torch.profiler import ProfilerActivity, profile

    x = randn(64, 64, seed=16).to(DEVICE)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        (x @ x).relu().sum().item()
    return sorted({event.key for event in profiled.key_averages() if event.key.startswith("aten::")})


def work(tell):
    for area in (
        training, autocast, attention, convolution, linear_algebra, transforms, sparse, embeddings, script, streams, exchanged,
        allocator, profiler,
    ):
        tell(area.__name__.replace("_", " "), area())
