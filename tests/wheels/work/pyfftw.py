"""plans with threads, wisdom, aligned arrays"""

import numpy as np
import pyfftw


def work(tell):
    data = pyfftw.empty_aligned((64, 96), "complex128")
    data[:] = np.random.default_rng(3).standard_normal((64, 96))
    expected = np.fft.fft2(data)
    for threads in (1, 2):
        plan = pyfftw.builders.fft2(data.copy(), threads=threads, planner_effort="FFTW_ESTIMATE")
        tell(f"threads {threads}", bool(np.allclose(plan(), expected)))
    tell("bits", pyfftw.builders.rfft(data.real.copy(), planner_effort="FFTW_ESTIMATE")())
    tell("inverse", bool(np.allclose(pyfftw.interfaces.numpy_fft.ifft2(expected), data)))
    tell("wisdom", [len(part) > 0 for part in pyfftw.export_wisdom()])
    pyfftw.forget_wisdom()
    try:
        pyfftw.FFTW(data, np.empty(3, "complex128"))
    except ValueError as error:
        tell("error", str(error))
