"""Prints one line: the bits of what pandas computes, after an extension has thrown exceptions of C++ on several threads."""

import hashlib, threading
import contourpy, numpy, pandas

def throws():
    generator = contourpy.contour_generator(z=numpy.arange(9.0).reshape(3, 3), name='serial')
    caught = 0
    for _ in range(200):
        try:
            generator.filled(2.0, 1.0)
        except ValueError:
            caught += 1
    return caught

counts = []
threads = [threading.Thread(target=lambda: counts.append(throws())) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert counts == [200] * 3, counts
random = numpy.random.default_rng(7)
frame = pandas.DataFrame({'kind': list('abc') * 400, 'x': random.standard_normal(1200)})
frame['when'] = pandas.date_range('2026-01-01', periods=1200, freq='h', tz='UTC')
digest = hashlib.sha256()
digest.update(frame.groupby('kind')['x'].agg(['sum', 'mean', 'std']).to_numpy().tobytes())
digest.update(frame.set_index('when')['x'].resample('D').mean().to_csv().encode())
digest.update(frame.merge(frame.head(40), on='kind').sort_values(['x_x', 'x_y']).head(9).to_csv().encode())
print('computed', pandas.__version__, contourpy.__version__, digest.hexdigest(), flush=True)
