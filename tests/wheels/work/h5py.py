"""chunks, filters, compound types, references, a file in memory, an error"""

import io
import tempfile

import h5py
import numpy as np


def work(tell):
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(f"{folder}/a.h5", "w") as file:
            data = file.create_dataset("g/data", data=np.arange(30_000).reshape(300, 100), chunks=(30, 30), compression="gzip", shuffle=True)
            data.attrs["unit"] = "mü"
            kind = np.dtype([("n", "i4"), ("x", "f8"), ("s", h5py.string_dtype())])
            file["rows"] = np.array([(i, i / 3, f"ü{i}") for i in range(50)], dtype=kind)
            file["link"] = h5py.SoftLink("/g/data")
            file["reference"] = np.array([data.ref], dtype=h5py.ref_dtype)
            growing = file.create_dataset("growing", (0,), maxshape=(None,), dtype="f4")
            growing.resize((77,))
            growing[10:20] = 3
        with h5py.File(f"{folder}/a.h5") as file:
            tell("slice", file["link"][10:290:7, 5])
            tell("rows", [[int(row["n"]), float(row["x"]), row["s"].decode()] for row in file["rows"][:9]])
            tell("reference", file[file["reference"][0]].attrs["unit"])
            names = []
            file.visit(names.append)
            tell("names", sorted(names))
            tell("growing", file["growing"][:])
            try:
                file["missing"]
            except KeyError as error:
                tell("error", str(error))
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        file["x"] = np.float32([1, 2])
    with h5py.File(memory) as file:
        tell("memory", file["x"][:])
