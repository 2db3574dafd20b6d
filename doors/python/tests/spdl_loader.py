"""SPDL's data loader with its stages on interpreters: the functions import numpy, which CPython's own interpreters cannot."""

import numpy
from spdl.pipeline import PipelineBuilder

import hydrozoa

PICTURES = 60


def decode(number):
    import numpy

    return numpy.random.default_rng(number).integers(0, 255, (64, 64, 3), dtype=numpy.uint8)


def augment(picture):
    import sys

    array = picture[:, ::-1].astype("float32") / 255
    return (array - array.mean((0, 1))) / array.std((0, 1)), "_hydrozoa_worker" in sys.modules


def main():
    with hydrozoa.Executor(2) as executor:
        builder = PipelineBuilder().add_source(range(PICTURES))
        for stage in (decode, augment):
            builder = builder.pipe(stage, executor=executor, concurrency=2, output_order="input")
        pipeline = builder.add_sink(4).build(num_threads=1)
        with pipeline.auto_stop():
            results = list(pipeline)
    assert len(results) == PICTURES
    for number, (array, is_copy) in enumerate(results):
        assert is_copy and numpy.array_equal(array, augment(decode(number))[0]), number
    print(f"{PICTURES} pictures are right")


if __name__ == "__main__":
    main()
