"""The work of executors.py. It is a module, so that every kind of worker imports it: functions of a main program go by value to some.
CPython's own interpreters cannot import numpy, so each function imports what it needs."""


def nothing():
    pass


def same(array):
    return array


def count(n):
    total = 0
    for value in range(n):
        total += value * value % 7
    return total


frame = None


def group(rows):
    global frame
    import numpy
    import pandas

    if frame is None:
        random = numpy.random.default_rng(0)
        frame = pandas.DataFrame({"key": random.integers(0, 1000, rows), "value": random.random(rows)})
    return float(frame.groupby("key")["value"].agg(["mean", "std", "max"]).to_numpy().sum())


model = None


def infer(rows):
    global model
    import torch

    if model is None:
        torch.manual_seed(0)
        layers = [layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
        model = torch.nn.Sequential(*layers)
    with torch.inference_mode():
        return float(sum(model(torch.ones(rows, 256)).sum() for _ in range(20)))


picture = None


def augment(side):
    global picture
    import io

    import numpy
    from PIL import Image

    if picture is None:
        file = io.BytesIO()
        Image.fromarray(numpy.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=numpy.uint8)).save(file, "JPEG")
        picture = file.getvalue()
    array = numpy.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), dtype=numpy.float32) / 255
    array = array[:, ::-1] if side % 2 else array[::-1]
    return float(((array - array.mean((0, 1))) / array.std((0, 1))).sum())
