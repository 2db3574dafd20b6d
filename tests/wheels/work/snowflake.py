"""results in Arrow's format decoded by its extension, its core in Rust, a refused connection's error"""

import decimal

import pyarrow as pa
import snowflake.connector
from pyarrow.cffi import ffi
from snowflake.connector._core import sf_core_python
from snowflake.connector._internal.arrow_context import ArrowConverterContext
from snowflake.connector._internal.arrow_stream_iterator import ArrowStreamIterator


def rows(batch):
    stream = ffi.new("struct ArrowArrayStream *")
    address = int(ffi.cast("uintptr_t", stream))
    pa.RecordBatchReader.from_batches(batch.schema, [batch] * 3)._export_to_c(address)
    return ArrowStreamIterator(address, ArrowConverterContext()).fetch_all()


def work(tell):
    numbers = pa.field("N", pa.int64(), metadata={"logicalType": "FIXED", "precision": "38", "scale": "2"})
    texts = pa.field("T", pa.string(), metadata={"logicalType": "TEXT"})
    reals = pa.field("R", pa.float64(), metadata={"logicalType": "REAL"})
    batch = pa.record_batch(
        [pa.array(range(500), pa.int64()), pa.array([f"ü{i}" for i in range(500)]), pa.array([i / 3 for i in range(500)])],
        schema=pa.schema([numbers, texts, reals]),
    )
    found = rows(batch)
    tell("type", type(found[0][0]) is decimal.Decimal)
    tell("rows", [[str(row[0]), row[1], row[2]] for row in found])
    status, _ = sf_core_python.call_proto("no such interface", "method", b"")
    tell("core", status)
    try:
        snowflake.connector.connect(user="u", password="p")
    except snowflake.connector.errors.Error as error:
        tell("error", type(error).__name__)
