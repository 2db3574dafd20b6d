"""the run-time library of mypyc's programs: base64, buffers, vectors"""

from librt import base64, internal


def work(tell):
    data = bytes(range(256)) * 40
    tell("base64", base64.b64encode(data))
    tell("back", base64.b64decode(base64.b64encode(data)) == data)
    buffer = internal.WriteBuffer()
    for i in range(300):
        internal.write_int(buffer, i * 1_000_003)
        internal.write_str(buffer, f"text ü {i}")
        internal.write_float(buffer, i / 7)
    written = buffer.getvalue()
    tell("written", written)
    reader = internal.ReadBuffer(written)
    tell("read", [[internal.read_int(reader), internal.read_str(reader), internal.read_float(reader)] for _ in range(300)])
    try:
        internal.read_int(reader)
    except ValueError as error:
        tell("error", str(error))
