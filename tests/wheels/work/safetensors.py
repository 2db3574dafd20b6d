"""files, slices, metadata, its typed error"""

import tempfile

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, load_file, save, save_file


def work(tell):
    tensors = {f"t{i}": np.arange(i * 100, i * 100 + 600, dtype=np.float32).reshape(20, 30) for i in range(20)}
    data = save(tensors, {"author": "ü"})
    tell("bytes", data)
    tell("loaded", sorted(load(data)))
    with tempfile.TemporaryDirectory() as folder:
        save_file(tensors, f"{folder}/a.safetensors", {"k": "v"})
        with safe_open(f"{folder}/a.safetensors", "numpy") as file:
            tell("slice", file.get_slice("t3")[2:9, ::1])
            tell("metadata", [file.metadata(), sorted(file.keys())])
        tell("all", load_file(f"{folder}/a.safetensors")["t7"])
    for wrong in (b"", data[:40], b"\xff" * 64):
        try:
            load(wrong)
        except SafetensorError as error:
            tell(f"error {len(wrong)}", str(error))
