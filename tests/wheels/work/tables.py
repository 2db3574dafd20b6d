"""tables with indices, queries by numexpr, Blosc's filters, a tree of nodes"""

import tempfile

import numpy as np
import tables


class Row(tables.IsDescription):
    name = tables.StringCol(12)
    number = tables.Int64Col()
    value = tables.Float64Col()


def work(tell):
    with tempfile.TemporaryDirectory() as folder:
        filters = tables.Filters(complevel=5, complib="blosc:zstd")
        with tables.open_file(f"{folder}/a.h5", "w", filters=filters) as file:
            table = file.create_table("/group", "rows", Row, createparents=True)
            row = table.row
            for i in range(3000):
                row["name"], row["number"], row["value"] = f"n{i % 31}", i, i / 7
                row.append()
            table.flush()
            table.cols.number.create_csindex()
            tell("query", [[one["number"], one["value"]] for one in table.where("(number > 2900) & (value < 420.5)")])
            file.create_carray("/", "array", obj=np.arange(5000.0).reshape(50, 100))
            growing = file.create_vlarray("/", "ragged", tables.Int32Atom())
            for i in range(9):
                growing.append(np.arange(i))
        with tables.open_file(f"{folder}/a.h5") as file:
            tell("array", file.root.array[3:40:5, ::9])
            tell("ragged", [one.tolist() for one in file.root.ragged])
            tell("nodes", [node._v_pathname for node in file.walk_nodes("/")])
            try:
                file.get_node("/missing")
            except tables.NoSuchNodeError as error:
                tell("error", type(error).__name__)
