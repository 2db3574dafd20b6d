"""expressions by its virtual machine and its threads"""

import numexpr
import numpy as np


def work(tell):
    numexpr.set_num_threads(2)
    a, b = np.linspace(-3, 3, 200_000), np.linspace(1, 2, 200_000)
    tell("values", numexpr.evaluate("where(a > 0, sin(a) * b ** 2, exp(a) - b)"))
    tell("sum", round(float(numexpr.evaluate("sum(a * b)")), 6))
    tell("integers", numexpr.evaluate("(x % 7) << 2", {"x": np.arange(5000)}))
    tell("text", numexpr.evaluate("contains(s, b'b')", {"s": np.array([b"abc", b"xyz"])}))
    try:
        numexpr.evaluate("a + nothing")
    except KeyError as error:
        tell("error", str(error))
