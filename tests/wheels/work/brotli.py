"""qualities, streams, errors"""

import brotli


def work(tell):
    data = b"".join(f"record {i} of {i % 17}\n".encode() for i in range(6000))
    for quality in (1, 5, 11):
        tell(f"quality {quality}", brotli.compress(data, quality=quality, lgwin=18))
    compressor = brotli.Compressor(quality=4)
    packed = b"".join(compressor.process(data[i : i + 777]) for i in range(0, len(data), 777)) + compressor.finish()
    reader = brotli.Decompressor()
    tell("stream", b"".join(reader.process(packed[i : i + 50]) for i in range(0, len(packed), 50)) == data)
    try:
        brotli.decompress(b"no brotli data")
    except brotli.error as error:
        tell("error", str(error))
