"""a data set in memory: maps, filters, parquet, a sharded iterable, features"""

import os
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
import datasets
from datasets import ClassLabel, Dataset, Features, Sequence, Value


def work(tell):
    datasets.disable_caching()
    features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"]), "ids": Sequence(Value("int32"))})
    rows = {"text": [f"row {i} ü" for i in range(300)], "label": [i % 2 for i in range(300)], "ids": [[i] * (i % 4) for i in range(300)]}
    data = Dataset.from_dict(rows, features=features)
    mapped = data.map(lambda batch: {"size": [len(text) for text in batch["text"]]}, batched=True, batch_size=70)
    tell("mapped", mapped.sort("size", reverse=True)[:20])
    tell("filtered", mapped.filter(lambda row: row["label"] == 1 and row["size"] > 8).num_rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.parquet"
        mapped.to_parquet(path)
        back = Dataset.from_parquet(str(path), cache_dir=folder)
        tell("parquet", [back.features["label"].names, back[17]])
        mapped.save_to_disk(f"{folder}/saved")
        tell("disk", datasets.load_from_disk(f"{folder}/saved").shuffle(seed=3)[:5])
    tell("frame", data.with_format("pandas")[:9].to_csv())
    tell("stream", [row["text"] for row in data.to_iterable_dataset(num_shards=4).take(6)])
    tell("split", sorted(data.train_test_split(0.2, seed=1)["test"]["text"])[:9])
