"""four digests, streams, seeds"""

import xxhash


def work(tell):
    data = bytes(range(256)) * 777
    for kind in (xxhash.xxh32, xxhash.xxh64, xxhash.xxh3_64, xxhash.xxh3_128):
        hasher = kind(seed=7)
        for at in range(0, len(data), 997):
            hasher.update(data[at : at + 997])
        copy = hasher.copy()
        copy.update(b"more")
        tell(kind.__name__, [hasher.hexdigest(), copy.intdigest(), kind(data).digest()])
    try:
        xxhash.xxh32(b"a", seed="b")
    except TypeError as error:
        tell("error", str(error))
