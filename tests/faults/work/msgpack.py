"""A callback keeps a view of a buffer that is replaced meanwhile."""

import msgpack


class Unsupported:
    pass


def default(value):
    global exported
    exported = packer.getbuffer()
    return b"A" * (2 * 1024 * 1024)


packer = msgpack.Packer(default=default, autoreset=False)
packer.pack([Unsupported()])
msgpack.unpackb(exported)
