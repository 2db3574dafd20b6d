"""jvp, vjp, Hessians, jacrev and jacfwd, vmap with randomness, an ensemble by functional_call, linearize, forward AD by dual tensors and in a function of Python"""

from common import perceptron, randn

import torch
import torch.autograd.forward_ad as forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap


def ensemble():
    models = [perceptron(seed) for seed in range(4)]
    parameters, buffers = stack_module_state(models)

    def call(parameters, buffers, x):
        return functional_call(models[0], (parameters, buffers), (x,))

    return vmap(call, in_dims=(0, 0, None))(parameters, buffers, randn(5, 8, seed=1)).detach()


def dual():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(randn(4, 8, seed=2), randn(4, 8, seed=3))
        y = forward_ad.unpack_dual((x.sin() * x).sum(1))
        model = forward_ad.unpack_dual(perceptron(4)(x))
        return [y.primal, y.tangent, model.primal.detach(), model.tangent.detach()]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        context.save_for_forward(x)
        return x**3

    @staticmethod
    def jvp(context, tangent):
        (x,) = context.saved_tensors
        return 3 * x**2 * tangent

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return 3 * x**2 * gradient


def cube():
    with forward_ad.dual_level():
        y = Cube.apply(forward_ad.make_dual(randn(6, seed=5), randn(6, seed=6)))
        return forward_ad.unpack_dual(y).tangent


def random_lanes(randomness):
    torch.manual_seed(7)
    return vmap(lambda x: x + torch.randn(3), randomness=randomness)(torch.zeros(4, 3))


def higher_gradients():
    x = randn(4, seed=8).requires_grad_(True)
    (first,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    product = torch.autograd.functional.hvp(lambda v: (v**3).sum(), x.detach(), torch.ones(4))[1]
    checked = torch.autograd.gradcheck(torch.sin, randn(3, seed=9).double().requires_grad_(True), check_forward_ad=True)
    return [first.detach(), second, product, checked]


def work(tell):
    x = randn(4, 8, seed=10)
    f = lambda v: (v.sin() ** 2).sum(-1)
    tell("jvp", jvp(f, (x,), (torch.ones_like(x),)))
    output, pull = vjp(f, x)
    tell("vjp", [output, pull(torch.ones(4))[0]])
    tell("hessian", hessian(lambda v: (v**4).sum())(x[0]))
    tell("jacobians", [jacrev(torch.sin)(x[0]), jacfwd(torch.cos)(x[0]), vmap(jacrev(f))(x)])
    tell("vmap of grad", vmap(grad(f))(x))
    tell("vmap randomness", [random_lanes("same"), random_lanes("different")])
    tell("ensemble", ensemble())
    output, linear = linearize(f, x)
    tell("linearize", [output, linear(torch.ones_like(x))])
    tell("forward AD", dual())
    tell("forward AD in a function of Python", cube())
    tell("higher gradients", higher_gradients())
