"""the hashes of files, computed by its thread pool"""

import tempfile
from pathlib import Path

import hf_xet


def work(tell):
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i in range(6):
            path = Path(folder) / f"file{i}"
            path.write_bytes(bytes((j * (i + 3)) & 255 for j in range(20_000)) * (3 + i * 4))
            files.append(str(path))
        tell("hashes", [[found.hash, found.file_size] for found in hf_xet.hash_files(files)])
    try:
        hf_xet.hash_files(["/no/such/file"])
    except Exception as error:
        tell("error", type(error).__name__)
