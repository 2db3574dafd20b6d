"""Does not end by itself."""


def handle(event):
    while True:
        pass
