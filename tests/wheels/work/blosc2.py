"""codecs with threads of its own, arrays, slices, lazy expressions"""

import blosc2
import numpy as np


def work(tell):
    data = np.linspace(0, 100, 60_000)
    for codec in (blosc2.Codec.BLOSCLZ, blosc2.Codec.LZ4, blosc2.Codec.ZSTD):
        packed = blosc2.compress2(data, codec=codec, clevel=5, nthreads=2)
        tell(codec.name, blosc2.decompress2(packed) == data.tobytes())
    array = blosc2.asarray(data.reshape(300, 200), chunks=(100, 50), blocks=(20, 10))
    tell("slice", array[13:250:7, 3:90])
    array[5:9, :] = -1
    tell("changed", array[:12, :4])
    tell("expression", (array * 2 + array**2)[:20, :20])
    tell("sum", float((array + 1).sum()))
    frame = blosc2.SChunk(chunksize=8000, data=data)
    tell("chunks", [frame.nchunks, len(frame), np.frombuffer(frame[100:200], "u1")])
    tell("info", blosc2.nthreads > 0)
    try:
        blosc2.decompress2(b"no such data and more of it, more")
    except (RuntimeError, ValueError) as error:
        tell("error", type(error).__name__)
