"""torch.compile with eager, aot_eager and inductor, dynamic shapes, graph breaks, a compiled training step, fx, make_fx"""

from common import parameters, perceptron, randn, rand

import torch
from torch.fx.experimental.proxy_tensor import make_fx


def compiled(backend):
    torch._dynamo.reset()
    model = torch.compile(perceptron(1), backend=backend)
    with torch.no_grad():
        return [model(rand(4, 8, seed=seed)) for seed in range(3)]


def dynamic():
    torch._dynamo.reset()
    function = torch.compile(lambda x: (x.sin() * x.shape[0]).sum(0), backend="inductor", dynamic=True)
    return [function(randn(size, 5, seed=size)) for size in (3, 6, 9)]


def graph_breaks():
    torch._dynamo.reset()
    seen = []

    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        seen.append(float(y.sum()))
        return torch.where(y.sum() > 0, y + 1, y - 1)

    optimized = torch.compile(function, backend="eager")
    outputs = [optimized(randn(6, seed=seed)) for seed in range(3)]
    explained = torch._dynamo.explain(function)(randn(6, seed=9))
    return [outputs, seen, explained.graph_count, explained.graph_break_count]


def training_step():
    torch._dynamo.reset()
    model = perceptron(2).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def loss(inputs):
        return torch.nn.functional.cross_entropy(model(inputs), torch.tensor([0, 1, 2, 0]))

    optimized = torch.compile(loss, backend="aot_eager")
    for step in range(4):
        optimizer.zero_grad()
        optimized(randn(4, 8, seed=step)).backward()
        optimizer.step()
    return parameters(model)


def symbolic_trace():
    traced = torch.fx.symbolic_trace(perceptron(3))
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), torch.nn.ReLU):
            with traced.graph.inserting_after(node):
                replacement = traced.graph.call_function(torch.tanh, node.args)
            node.replace_all_uses_with(replacement)
            traced.graph.erase_node(node)
    traced.recompile()
    return [traced(randn(4, 8, seed=4)).detach(), [node.op for node in traced.graph.nodes], traced.code]


def proxy_trace():
    traced = make_fx(torch.func.grad(lambda x: (x.tanh() ** 2).sum()))(randn(6, seed=5))
    return [traced(randn(6, seed=6)), [str(node.target) for node in traced.graph.nodes]]


def work(tell):
    for backend in ("eager", "aot_eager", "inductor"):
        tell(f"compile {backend}", compiled(backend))
    tell("compile dynamic shapes", dynamic())
    tell("compile graph breaks", graph_breaks())
    tell("compile training step", training_step())
    tell("fx transformation", symbolic_trace())
    tell("make_fx", proxy_trace())
