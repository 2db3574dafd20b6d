"""compiled functions, gradients, vmap, scan, random keys, a callback, an error"""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


@jax.jit
def network(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return (x**2).sum()


def work(tell):
    keys = jax.random.split(jax.random.key(3), 3)
    weights = [jax.random.normal(key, (16, 16)) / 4 for key in keys]
    x = jnp.linspace(-1, 1, 16)
    tell("value", np.asarray(network(weights, x)))
    tell("gradient", [np.asarray(one) for one in jax.jit(jax.grad(network))(weights, x)])
    tell("vmap", np.asarray(jax.vmap(lambda scale: network(weights, x * scale))(jnp.arange(5.0))))
    carry, out = jax.lax.scan(lambda total, value: (total + value, total * value), 0.0, jnp.arange(20.0))
    tell("scan", [np.asarray(carry), np.asarray(out)])
    tell("linalg", np.asarray(jnp.linalg.svd(weights[0], compute_uv=False)))
    tell("hessian", np.asarray(jax.hessian(lambda y: jnp.sin(y).prod())(x[:4])))
    shape = jax.ShapeDtypeStruct((16,), x.dtype)
    tell("callback", np.asarray(jax.jit(lambda y: jax.pure_callback(lambda z: np.asarray(z) * 3, shape, y))(x)))
    tell("lowered", "stablehlo" in jax.jit(jnp.sin).lower(x).as_text())
    try:
        jax.jit(lambda y: float(y))(1.0)
    except jax.errors.ConcretizationTypeError as error:
        tell("error", type(error).__name__)
