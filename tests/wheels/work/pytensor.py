"""graphs compiled by its default mode, gradients, scans"""

import numpy as np
import pytensor
import pytensor.tensor as pt


def work(tell):
    x, y = pt.dmatrix("x"), pt.dvector("y")
    values = np.arange(20.0).reshape(4, 5) / 7
    cost = (pt.tanh(x @ y) ** 2).sum()
    function = pytensor.function([x, y], [cost, *pytensor.grad(cost, [x, y])])
    tell("gradients", [np.asarray(one) for one in function(values, values[0])])
    n = pt.iscalar("n")
    powers, updates = pytensor.scan(lambda previous, base: previous * base, outputs_info=pt.ones_like(y), non_sequences=y, n_steps=n)
    tell("scan", pytensor.function([y, n], powers, updates=updates)(values[1], 5))
    shared = pytensor.shared(np.float64(0), "count")
    step = pytensor.function([], shared, updates=[(shared, shared + 2)])
    tell("shared", [float(step()) for _ in range(5)])
    try:
        function(values, values)
    except TypeError as error:
        tell("error", type(error).__name__)
