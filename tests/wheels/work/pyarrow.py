"""parquet, datasets, csv, compute, a function of Python, an extension type, IPC"""

import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq


class Point(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.list_(pa.float64(), 2), "work.point")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def double(context, values):
    return pc.multiply(values, 2)


try:
    pc.register_scalar_function(double, "work_double", {"summary": "", "description": ""}, {"x": pa.int64()}, pa.int64())
    pa.register_extension_type(Point())
except pa.ArrowKeyError as error:
    raise RuntimeError(f"another interpreter's registration is visible: {error}") from None


def work(tell):
    table = pa.table(
        {
            "n": pa.array(range(5000)),
            "text": pa.array([None if i % 11 == 0 else f"t{i % 97}" for i in range(5000)]).dictionary_encode(),
            "nested": pa.array([{"a": i, "b": [i] * (i % 3)} for i in range(5000)]),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(table, path, compression="zstd", row_group_size=700)
        tell("parquet", pq.read_table(path).equals(table))
        # A file, no object of Python: Arrow's threads drop what they read from, sometimes while the interpreter ends.
        text = "\n".join(["a,b"] + [f"{i},{i / 3}" for i in range(2000)])
        (Path(folder) / "rows").write_text(text)
        tell("csv", pc.sum(pyarrow.csv.read_csv(Path(folder) / "rows").column("b")).as_py())
        found = pyarrow.dataset.dataset(path).to_table(filter=pc.field("n") > 4500)
        tell("dataset", found.column("n").to_pylist())
    plain = table.set_column(1, "text", pc.cast(table.column("text"), pa.string()))
    groups = plain.group_by("text").aggregate([("n", "sum"), ("n", "stddev")]).sort_by("text")
    tell("groups", repr(groups.to_pylist()))
    tell("function", pc.call_function("work_double", [pa.array([1, 2, 3])]).to_pylist())
    points = pa.ExtensionArray.from_storage(Point(), pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2)))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("p", points.type)])) as writer:
        writer.write_batch(pa.record_batch([points], names=["p"]))
    back = pa.ipc.open_stream(sink.getvalue()).read_all()
    tell("extension", [type(back.schema.field("p").type).__name__, back.column("p").to_pylist()])
    try:
        pa.array([1, "a"])
    except pa.ArrowInvalid as error:
        tell("error", str(error))
