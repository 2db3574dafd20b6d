"""expm, BFGS, spsolve, quad, LSODA, cKDTree, ndimage, special functions, a callback in C"""

import numpy as np
from scipy import fft, integrate, interpolate, linalg, ndimage, optimize, signal, sparse, spatial, special, stats
from scipy.sparse import linalg as sparse_linalg


def work(tell):
    random = np.random.default_rng(3)
    a = random.standard_normal((60, 60))
    tell("expm", linalg.expm(a / 20))
    tell("schur", linalg.schur(a)[0])
    tell("bfgs", optimize.minimize(optimize.rosen, np.zeros(6), method="BFGS").x)
    tell("highs", optimize.linprog([-1, -2], A_ub=[[1, 1], [3, 1]], b_ub=[4, 6]).x)
    matrix = sparse.random(200, 200, 0.05, random_state=1, format="csc") + sparse.eye(200, format="csc") * 4
    tell("spsolve", sparse_linalg.spsolve(matrix, np.arange(200.0)))
    tell("arpack", np.sort(np.abs(sparse_linalg.eigs(matrix, k=3, v0=np.ones(200))[0])))
    tell("quad", integrate.quad(lambda x: np.exp(-x * x) * np.cos(3 * x), -4, 4))
    answer = integrate.odeint(lambda y, t: [y[1], -y[0] * 1.5], [1.0, 0.0], np.linspace(0, 10, 50))
    tell("lsoda", answer)
    points = random.random((500, 3))
    distances, places = spatial.cKDTree(points).query(points[:50] + 0.01, k=3)
    tell("tree", [distances, places])
    tell("hull", spatial.ConvexHull(points).volume)
    tell("ndimage", ndimage.gaussian_filter(points.reshape(50, 30), 2))
    tell("generic", ndimage.generic_filter(points[:20], lambda window: float(window.max() - window.min()), 3))
    tell("special", [special.jv(2.5, points[:, 0]), special.hyp2f1(0.5, 1, 1.5, points[:, 1]), special.gammaincinv(3, 0.4)])
    tell("spline", interpolate.CubicSpline(np.arange(20), points[:20, 0])(np.linspace(0, 19, 77)))
    tell("signal", signal.lfilter(*signal.butter(4, 0.2), points[:, 2]))
    tell("fft", fft.dct(points[:, 0], type=3))
    tell("stats", stats.ks_2samp(points[:, 0], points[:, 1]).pvalue)
