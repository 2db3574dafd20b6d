"""matmul, svd, fft, generators, sorting, errstate, a ufunc of Python"""

import numpy as np


def work(tell):
    random = np.random.default_rng(7)
    a = random.standard_normal((180, 180))
    tell("matmul", a @ a.T)
    tell("svd", np.linalg.svd(a, compute_uv=False))
    tell("solve", np.linalg.solve(a, a[:, 0]))
    tell("fft", np.fft.rfft2(a))
    tell("bits", np.random.Generator(np.random.MT19937(3)).integers(0, 1 << 40, 1000))
    np.random.seed(11)
    tell("legacy", np.random.standard_gamma(2.0, 100))
    tell("sort", np.sort(random.integers(0, 1 << 20, 50_000).astype(np.int32), kind="stable"))
    tell("einsum", np.einsum("ij,kj->ik", a[:40], a[:50]))
    tell("ufunc", np.frompyfunc(lambda x: x * 3, 1, 1)(np.arange(20)).tolist())
    seen = []
    with np.errstate(all="call", call=lambda kind, flag: seen.append((kind, flag))):
        np.float64(1.0) / np.zeros(2)
    tell("errstate", seen)
    tell("text", np.array2string(a[:3, :3], precision=4))
    record = np.array([(1, "a", 2.5), (2, "bb", 3.5)], dtype=[("n", "i4"), ("s", "U4"), ("x", "f8")])
    tell("records", np.sort(record, order="x")["s"].tolist())
    try:
        np.linalg.inv(np.zeros((3, 3)))
    except np.linalg.LinAlgError as error:
        tell("error", str(error))
