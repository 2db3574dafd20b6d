"""Takes more memory than a plug-in may have."""


def handle(event):
    return str(len(bytearray(1 << 30)))
