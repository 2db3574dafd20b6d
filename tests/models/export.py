"""Packages one model with stock torch.package, and keeps what plain python computes with it.

    export.py --list
    export.py NAME FOLDER

The first prints the models as JSON. The second writes NAME.pt (with model/model.pkl and model/example.pkl) and NAME.expected, and prints a line of JSON: what it took.
"""

import importlib
import json
import os
import sys
import time
import warnings

import check
import torch
from catalogue import MODELS, made
from torch.package import PackageExporter

# The same for each model: torch and what it needs itself. A second copy of typing_extensions would replace parts of the
# machine's `typing`. `io` and `sys` torch.package wants named, as they reach further than the rest of the standard library.
EXTERN = ("torch.**", "numpy.**", "typing_extensions", "io", "sys")


def patched(exporter, entry):
    """Writes the modules of which lines are patched; how many lines that are."""
    lines = 0
    for name, source in entry.replaced.items():
        is_package = hasattr(importlib.import_module(name), "__path__")
        exporter.save_source_string(name, source, is_package=is_package)
        lines += source.count("\n")
    for name, changes in entry.patches.items():
        module = importlib.import_module(name)
        with open(module.__file__) as file:
            source = file.read()
        for before, after in changes:
            if source.count(before) != 1:
                raise SystemExit(f"{name}: the text to patch is there {source.count(before)} times:\n{before}")
            source = source.replace(before, after)
            lines += max(len(before.splitlines()), len(after.splitlines()))
        exporter.save_source_string(name, source, is_package=hasattr(module, "__path__"))
    return lines


def export(name, folder):
    # torch.package itself uses TypedStorage.
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    entry = next(entry for entry in MODELS if entry.name == name)
    torch.set_num_threads(1)
    model, example = made(entry)
    torch.manual_seed(check.SEED)
    bad = check.not_a_number(model(*example))
    if bad:
        raise SystemExit(f"{name}: {bad} elements of the result are no numbers")
    expected = check.call(model, example)
    again = check.call(model, example)
    path = os.path.join(folder, f"{name}.pt")
    start = time.perf_counter()
    with PackageExporter(path) as exporter:
        # The first pattern that fits decides: single modules before the patterns that cover them.
        for action, patterns in (
            (exporter.intern, [name for name in entry.intern if "*" not in name]),
            (exporter.mock, entry.mock),
            (exporter.extern, entry.extern + EXTERN),
            (exporter.intern, [name for name in entry.intern if "*" in name]),
        ):
            for pattern in patterns:
                action(pattern)
        lines = patched(exporter, entry)
        for module, library in entry.libraries.items():
            place = os.path.dirname(importlib.import_module(module).__file__)
            with open(os.path.join(place, library), "rb") as file:
                exporter.save_binary(module, library, file.read())
        exporter.save_pickle("model", "model.pkl", model)
        exporter.save_pickle("model", "example.pkl", example)
    seconds = time.perf_counter() - start
    with open(os.path.join(folder, f"{name}.expected"), "wb") as file:
        file.write(expected)
    tensors = {t.data_ptr(): t for t in [*model.parameters(), *model.buffers()]}
    report = {
        "mocks": sorted(exporter.mocked_modules()),
        "modules": len(exporter.interned_modules()),
        "externs": sorted({module.partition(".")[0] for module in exporter.externed_modules()}),
        "patched": lines,
        "seconds": seconds,
        "bytes": os.path.getsize(path),
        "weights": sum(t.numel() * t.element_size() for t in tensors.values()),
        "repeatable": expected == again,
        "brings": sorted({module.partition(".")[0] for module in exporter.interned_modules()}),
    }
    print(json.dumps(report))


def main():
    if sys.argv[1:] == ["--list"]:
        fields = ("name", "title", "source", "draws")
        print(json.dumps([{field: getattr(entry, field) for field in fields} for entry in MODELS]))
    else:
        export(*sys.argv[1:])


if __name__ == "__main__":
    main()
