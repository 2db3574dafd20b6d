"""A writer without a schema."""

import os

import pyarrow.parquet

pyarrow.parquet.ParquetWriter(os.devnull, None)
