"""cupy: arrays, kernels of its own, random numbers, memory pool, exchange with torch"""

from common import randn

import cupy
import torch


def work(tell):
    given = randn(256, seed=1).cuda()
    array = cupy.from_dlpack(given)
    tell("exchange", cupy.asnumpy(array * 2 + 1))
    cupy.random.seed(3)
    tell("random numbers", cupy.asnumpy(cupy.random.random(100)))
    kernel = cupy.RawKernel("extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }", "twice")
    own = cupy.arange(128, dtype=cupy.float32)
    kernel((1,), (128,), (own,))
    tell("a kernel", cupy.asnumpy(own))
    tell("a matrix product", cupy.asnumpy(own.reshape(8, 16) @ own.reshape(16, 8)))
    before = cupy.get_default_memory_pool().used_bytes()
    kept = cupy.zeros(1 << 20)
    tell("the pool", cupy.get_default_memory_pool().used_bytes() - before)
    del kept
