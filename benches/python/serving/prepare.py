"""Writes the files that models need, and inputs with the outputs of plain python: prepare.py FOLDER MODEL..."""

import json
import os
import sys

import numpy
import work

CASES = 8


def inputs(model, seed):
    kind, shape, _, _ = work.MODELS[model]
    if kind == "BYTES":
        from workloads import transformer

        return json.dumps(transformer._texts(seed, shape[0])).encode()
    draw = numpy.random.default_rng(seed)
    if kind == "UINT8":
        return draw.integers(0, 256, shape, numpy.uint8).tobytes()
    return draw.standard_normal(shape).astype(work.DTYPES[kind]).tobytes()


def main():
    folder, *models = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if "text" in models:
        from workloads import transformer

        transformer.prepare(folder)
    for model in models:
        call = work.make(model, folder)
        place = os.path.join(folder, "cases", model)
        os.makedirs(place, exist_ok=True)
        for seed in range(CASES):
            body = inputs(model, seed)
            output = numpy.ascontiguousarray(call(work.array(model, body)))
            kind, shape = work.MODELS[model][2:]
            assert output.dtype == work.DTYPES[kind] and list(output.shape) == shape, (model, output.dtype, output.shape)
            for name, data in (("in", body), ("out", output.tobytes())):
                with open(os.path.join(place, f"{seed}.{name}"), "wb") as file:
                    file.write(data)
        keys = ("input_type", "input_shape", "output_type", "output_shape")
        with open(os.path.join(place, "case.json"), "w", encoding="utf-8") as file:
            json.dump({"count": CASES, **dict(zip(keys, work.MODELS[model], strict=True))}, file)


main()
