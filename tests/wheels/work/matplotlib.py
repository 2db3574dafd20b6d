"""figures drawn by Agg, text by FreeType, contours, SVG and PDF"""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np


def work(tell):
    plt.rcParams["svg.hashsalt"] = "work"
    x = np.linspace(-3, 3, 120)
    figure, axes = plt.subplots(2, 2, figsize=(6, 5))
    axes[0, 0].plot(x, np.sin(x), "r--", label=r"$\sin(x)^2$")
    axes[0, 0].legend(title="größe")
    axes[0, 1].contourf(x, x, np.outer(np.cos(x), x), 9)
    axes[1, 0].imshow(np.outer(x, x), interpolation="lanczos", cmap="magma")
    axes[1, 1].hist(np.random.default_rng(1).standard_normal(1000), bins=30)
    figure.canvas.draw()
    tell("pixels", np.asarray(figure.canvas.buffer_rgba()))
    for kind, extra in (("svg", {"Date": None}), ("pdf", {"CreationDate": None}), ("png", {})):
        file = io.BytesIO()
        figure.savefig(file, format=kind, metadata=extra)
        tell(kind, file.getvalue())
    triangles = matplotlib.tri.Triangulation(*np.random.default_rng(2).random((2, 60)))
    tell("triangles", triangles.triangles)
    plt.close(figure)
