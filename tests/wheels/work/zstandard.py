"""levels, dictionaries, streams, its own threads, errors"""

import io

import zstandard


def work(tell):
    data = b"".join(f"record {i} of {i % 17}\n".encode() for i in range(20_000))
    for level in (1, 9, 19):
        tell(f"level {level}", zstandard.ZstdCompressor(level=level).compress(data[:200_000]))
    threaded = zstandard.ZstdCompressor(level=3, threads=2).compress(data)
    tell("threads", zstandard.ZstdDecompressor().decompress(threaded) == data)
    samples = [f"record {i} of {i % 17} and more words".encode() * 3 for i in range(500)]
    dictionary = zstandard.train_dictionary(2000, samples)
    tell("dictionary", zstandard.ZstdCompressor(dict_data=dictionary).compress(samples[7]))
    packed = zstandard.ZstdCompressor().compress(data)
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)) as reader:
        tell("stream", sum(len(block) for block in iter(lambda: reader.read(4096), b"")))
    try:
        zstandard.ZstdDecompressor().decompress(b"no zstandard data")
    except zstandard.ZstdError as error:
        tell("error", str(error))
