"""frames, blocks, dictionaries, errors"""

import lz4.block
import lz4.frame


def work(tell):
    data = b"".join(f"record {i} of {i % 17}\n".encode() for i in range(9000))
    for level in (0, 5, 12):
        tell(f"frame {level}", lz4.frame.compress(data, compression_level=level, content_checksum=True))
    tell("block", lz4.block.compress(data, mode="high_compression", compression=9))
    tell("dictionary", lz4.block.compress(data[:500], dict=data[500:2000]))
    with lz4.frame.LZ4FrameCompressor() as compressor:
        packed = compressor.begin() + b"".join(compressor.compress(data[i : i + 999]) for i in range(0, len(data), 999)) + compressor.flush()
    tell("again", lz4.frame.decompress(packed) == data)
    try:
        lz4.frame.decompress(packed[:100])
    except RuntimeError as error:
        tell("error", str(error))
