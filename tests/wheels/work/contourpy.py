"""contours and filled bands, three algorithms, threads of its own"""

import contourpy
import numpy as np


def work(tell):
    x, y = np.meshgrid(np.linspace(-3, 3, 90), np.linspace(-3, 3, 80))
    z = np.sin(x) * np.cos(2 * y) + 0.1 * x
    for name in ("mpl2005", "mpl2014", "serial"):
        generator = contourpy.contour_generator(x, y, z, name=name)
        tell(name, generator.lines(0.25)[:3] if name == "mpl2014" else len(generator.lines(0.25)))
    threaded = contourpy.contour_generator(x, y, z, name="threaded", line_type="Separate", chunk_count=4, thread_count=3)
    tell("threaded", sorted([len(line), float(line.sum())] for line in threaded.lines(0.25)))
    tell("filled", contourpy.contour_generator(x, y, z).filled(-0.5, 0.5)[0])
    masked = np.ma.masked_greater(z, 0.8)
    tell("masked", contourpy.contour_generator(x, y, masked).lines(0.5)[0])
    try:
        contourpy.contour_generator(x, y[:5], z)
    except TypeError as error:
        tell("error", str(error))
