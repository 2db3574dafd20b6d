"""the kernels of scaled dot product attention, flex attention, multi-head attention's fast path, nested tensors, dynamic, static and quantization-aware quantization, pruning, parametrization, recurrent layers, dropout"""

from common import perceptron, rand, randn, seeded

import torch
from torch.ao import quantization
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.nn.utils import parametrizations, prune


def attention_kernels():
    query, key, value = (randn(2, 4, 16, 8, seed=seed) for seed in range(3))
    outputs = []
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            outputs.append(scaled_dot_product_attention(query, key, value, is_causal=True))
    with sdpa_kernel([SDPBackend.MATH]):
        flags = [torch.backends.cuda.math_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled()]
    return [outputs, flags]


def flexible_attention():
    query = randn(1, 2, 32, 16, seed=3)
    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 2, 32, 32, device="cpu", BLOCK_SIZE=16)
    return flex_attention(query, query, query, score_mod=lambda s, b, h, q, k: s + (q - k) * 0.1, block_mask=mask)


def encoder():
    layer = seeded(torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 4)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    x = randn(2, 6, 16, seed=5)
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    with torch.inference_mode():
        return model(x, src_key_padding_mask=padding).clone()


def nested():
    parts = [randn(3, 4, seed=6), randn(5, 4, seed=7)]
    tensor = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return [(tensor * 2).sin().values(), tensor.offsets(), torch.nested.to_padded_tensor(tensor, 0.0)]


def dynamic():
    model = quantization.quantize_dynamic(perceptron(8), {torch.nn.Linear}, dtype=torch.qint8)
    return [model(rand(4, 8, seed=9)), model[0].weight().int_repr(), torch.backends.quantized.engine]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = quantization.QuantStub()
        self.layers = perceptron(10)
        self.leave = quantization.DeQuantStub()

    def forward(self, x):
        return self.leave(self.layers(self.enter(x)))


def static(engine):
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        model = Network().eval()
        model.qconfig = quantization.get_default_qconfig(engine)
        quantization.prepare(model, inplace=True)
        for seed in range(3):
            model(rand(4, 8, seed=seed))
        quantization.convert(model, inplace=True)
        return model(rand(4, 8, seed=11))
    finally:
        torch.backends.quantized.engine = before


def aware():
    model = Network().train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    quantization.prepare_qat(model, inplace=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for seed in range(3):
        optimizer.zero_grad()
        model(rand(4, 8, seed=seed)).square().mean().backward()
        optimizer.step()
    return model(rand(4, 8, seed=12)).detach()


def quantized_tensors():
    x = rand(4, 8, seed=13)
    whole = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    scales, points = torch.full((4,), 0.05).double(), torch.zeros(4).long()
    channels = torch.quantize_per_channel(x, scales, points, 0, torch.qint8)
    return [whole.int_repr(), channels.int_repr(), channels.dequantize()]


def pruned():
    layer = seeded(torch.nn.Linear(8, 4), 14)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    return [layer.weight.detach(), layer.weight_mask]


def parametrized():
    layer = parametrizations.weight_norm(seeded(torch.nn.Linear(8, 4), 15))
    orthogonal = seeded(torch.nn.Linear(4, 4), 16)
    parametrizations.orthogonal(orthogonal, use_trivialization=False)
    return [layer(rand(2, 8, seed=17)).detach(), orthogonal.weight.detach()]


def recurrent():
    outputs = []
    for kind, seed in ((torch.nn.LSTM, 18), (torch.nn.GRU, 19)):
        model = seeded(kind(8, 16, num_layers=2, bidirectional=True, batch_first=True), seed)
        packed = torch.nn.utils.rnn.pack_sequence([randn(5, 8, seed=20), randn(3, 8, seed=21)])
        outputs.append(model(packed)[0].data.detach())
    return outputs


def dropped():
    torch.manual_seed(22)
    return [dropout(torch.ones(50), 0.5), torch.nn.Dropout2d(0.3)(torch.ones(2, 8, 2, 2)), torch.rand(5)]


def work(tell):
    tell("attention kernels", attention_kernels())
    tell("flex attention", flexible_attention())
    tell("transformer encoder", encoder())
    tell("nested tensors", nested())
    tell("dynamic quantization", dynamic())
    engines = [name for name in ("fbgemm", "qnnpack") if name in torch.backends.quantized.supported_engines]
    tell("static quantization", [static(engine) for engine in engines])
    tell("quantization-aware training", aware())
    tell("quantized tensors", quantized_tensors())
    tell("pruning", pruned())
    tell("parametrization", parametrized())
    tell("recurrent layers", recurrent())
    tell("dropout", dropped())
