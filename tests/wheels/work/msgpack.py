"""the packer and unpacker in C, timestamps, extensions, a stream, errors"""

import datetime

import msgpack
from msgpack import _cmsgpack


def work(tell):
    tell("compiled", msgpack.Packer is _cmsgpack.Packer)
    value = {"a": [1, -(1 << 40), 2.5, None, True, b"bytes", "ü"] * 100, "deep": {"x": {"y": [[]]}}}
    data = msgpack.packb(value)
    tell("packed", data)
    tell("equal", msgpack.unpackb(data) == value)
    moment = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc)
    tell("time", str(msgpack.unpackb(msgpack.packb(moment, datetime=True), timestamp=3)))
    hook = lambda one: msgpack.ExtType(42, repr(one).encode()) if isinstance(one, complex) else one
    back = msgpack.unpackb(msgpack.packb([1j, 2], default=hook), ext_hook=lambda code, raw: [code, raw.decode()])
    tell("extension", back)
    stream = msgpack.Unpacker()
    for i in range(0, len(data * 3), 7):
        stream.feed((data * 3)[i : i + 7])
    tell("stream", len(list(stream)))
    for wrong in (b"\xc1", b"\x92\x01", b"\x81\x90\x01"):
        try:
            msgpack.unpackb(wrong)
        except (ValueError, TypeError) as error:
            tell(repr(wrong), f"{type(error).__name__}: {error}")
