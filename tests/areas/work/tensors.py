"""sparse COO and CSR with gradients, linear algebra, FFT and convolutions, autocast to bfloat16, the default generator, the default dtype, distributions, optimizers, printing"""

from common import parameters, perceptron, rand, randn

import torch


def sparse():
    dense = rand(6, 8, seed=1) * (rand(6, 8, seed=2) > 0.5)
    weights = dense.to_sparse().requires_grad_(True)
    product = torch.sparse.mm(weights, rand(8, 3, seed=3))
    product.sum().backward()
    joined = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3)).coalesce()
    return [product.detach(), weights.grad.coalesce().values(), joined.indices(), joined.values()]


def compressed():
    matrix = (rand(6, 6, seed=4) * (rand(6, 6, seed=5) > 0.6)).to_sparse_csr()
    return [matrix.crow_indices(), matrix.values(), matrix @ rand(6, 2, seed=6), torch.sparse.sum(matrix.to_sparse_coo())]


def embedding():
    bag = torch.nn.EmbeddingBag(10, 4, sparse=True, mode="sum")
    with torch.no_grad():
        bag.weight.copy_(randn(10, 4, seed=7))
    optimizer = torch.optim.SparseAdam(bag.parameters(), lr=0.1)
    bag(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2])).sum().backward()
    optimizer.step()
    return bag.weight.detach()


def linear_algebra():
    a = randn(12, 12, seed=8).double()
    symmetric = a @ a.T + torch.eye(12).double()
    return [torch.linalg.svdvals(a), torch.linalg.eigvalsh(symmetric), torch.linalg.cholesky(symmetric),
            torch.linalg.solve(symmetric, a), torch.linalg.qr(a).R, torch.linalg.matrix_exp(a / 10)]


def signals():
    x = randn(2, 3, 32, seed=9)
    return [torch.view_as_real(torch.fft.rfft(x)), torch.stft(x[0], 16, return_complex=True, window=torch.hann_window(16)).abs(),
            torch.nn.functional.conv1d(x, randn(4, 3, 5, seed=10)), torch.einsum("bcl,bdl->bcd", x, x)]


def autocast():
    model = perceptron(11)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(rand(4, 8, seed=12))
        enabled = torch.is_autocast_enabled("cpu")
    return [output.detach().float(), str(output.dtype), enabled, torch.is_autocast_enabled("cpu")]


def generators():
    torch.manual_seed(13)
    first = torch.randn(5)
    state = torch.get_rng_state()
    second = torch.randperm(10)
    torch.set_rng_state(state)
    with torch.random.fork_rng():
        torch.manual_seed(14)
        inner = torch.rand(3)
    return [first, second, torch.randperm(10), inner, torch.initial_seed()]


def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        values = [str(torch.get_default_dtype()), torch.ones(2) / 3, str((torch.ones(1) * 1j).dtype)]
    finally:
        torch.set_default_dtype(torch.float32)
    return [values, torch.ones(2) / 3]


def distributions():
    torch.manual_seed(15)
    normal = torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3) * 2)
    gamma = torch.distributions.Gamma(torch.tensor(2.0, requires_grad=True), torch.tensor(1.0))
    sample = gamma.rsample((4,))
    divergence = torch.distributions.kl_divergence(normal, torch.distributions.MultivariateNormal(torch.ones(3), torch.eye(3)))
    return [normal.sample((2,)), sample.detach(), gamma.log_prob(sample).detach(), divergence]


def optimizers():
    results = []
    for kind in (torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam):
        model = perceptron(16).train()
        optimizer = kind(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
        for step in range(4):
            optimizer.zero_grad()
            model(randn(4, 8, seed=step)).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
        results.append([parameters(model), schedule.get_last_lr()])
    return results


def printed():
    torch.set_printoptions(precision=2, sci_mode=False)
    try:
        short = repr(randn(2, 3, seed=17))
    finally:
        torch.set_printoptions(profile="default")
    return [short, repr(randn(2, 3, seed=17)), repr(torch.ones(1, requires_grad=True) * 2)]


def work(tell):
    tell("sparse COO", sparse())
    tell("sparse CSR", compressed())
    tell("sparse embedding", embedding())
    tell("linear algebra", linear_algebra())
    tell("signals", signals())
    tell("autocast", autocast())
    tell("default generator", generators())
    tell("default dtype", default_dtype())
    tell("distributions", distributions())
    tell("optimizers", optimizers())
    tell("printing", printed())
