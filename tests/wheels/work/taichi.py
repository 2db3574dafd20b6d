"""kernels compiled by LLVM, fields, atomics, automatic derivatives"""

import numpy as np
import taichi as ti

ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False, cpu_max_num_threads=2, random_seed=3)
julia = ti.field(ti.f32, (96, 48))
loss = ti.field(ti.f32, (), needs_grad=True)
points = ti.field(ti.f32, 32, needs_grad=True)
count = ti.field(ti.i32, ())


@ti.kernel
def paint(t: ti.f32):
    for i, j in julia:
        c = ti.Vector([-0.8, ti.cos(t) * 0.2])
        z = ti.Vector([i / 48 - 1, j / 48 - 0.5]) * 2
        steps = 0
        while z.norm() < 20 and steps < 50:
            z = ti.Vector([z[0] ** 2 - z[1] ** 2, z[1] * z[0] * 2]) + c
            steps += 1
        julia[i, j] = 1 - steps * 0.02


@ti.kernel
def energy():
    for i in points:
        loss[None] += points[i] ** 2 / 2


@ti.kernel
def add(n: ti.i32):
    for i in range(n):
        ti.atomic_add(count[None], i)


def work(tell):
    paint(0.3)
    tell("julia", julia.to_numpy())
    points.from_numpy(np.arange(32, dtype=np.float32))
    loss[None] = 0
    with ti.ad.Tape(loss):
        energy()
    tell("gradient", points.grad.to_numpy())
    count[None] = 0
    add(20_000)
    tell("atomics", count[None])
