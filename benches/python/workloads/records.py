"""Binary records in pure Python: the standard library's `struct` packs them, unpacks them again and checks them."""

import random
import struct
import zlib

from workloads import CALLS, digest

RECORDS = 1_000
# Version, kind, length of the name, and the checksum of what follows.
HEADER = struct.Struct("<BBHI")
# Number, time in microseconds, price, share.
BODY = struct.Struct("<IqdH")


def _records(seed):
    draw = random.Random(seed)
    names = ["".join(draw.choices("abcdefghijklmnop", k=draw.randrange(4, 20))) for _ in range(50)]
    return [
        (draw.randrange(5), draw.choice(names), number, draw.getrandbits(40), draw.random() * 100, draw.getrandbits(16))
        for number in range(RECORDS)
    ]


def _pack(records):
    parts = []
    for kind, name, number, moment, price, share in records:
        text = name.encode()
        body = BODY.pack(number, moment, price, share) + text
        parts.append(HEADER.pack(1, kind, len(text), zlib.crc32(body)))
        parts.append(body)
    return b"".join(parts)


def _unpack(data):
    """The records' sum of prices for each kind and name."""
    totals, at = {}, 0
    while at < len(data):
        version, kind, length, checksum = HEADER.unpack_from(data, at)
        at += HEADER.size
        end = at + BODY.size + length
        if version != 1 or zlib.crc32(data[at:end]) != checksum:
            raise ValueError(f"a damaged record at {at}")
        _, _, price, share = BODY.unpack_from(data, at)
        name = data[at + BODY.size : end].decode()
        totals[kind, name] = totals.get((kind, name), 0.0) + price * share
        at = end
    return totals


def make(_folder):
    inputs = [_records(seed) for seed in range(CALLS)]

    def call(n):
        data = _pack(inputs[n])
        totals = _unpack(data)
        return digest(data, *(f"{key} {total!r}".encode() for key, total in sorted(totals.items())))

    return call
