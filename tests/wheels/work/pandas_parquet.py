"""to_parquet, read_parquet, periods and intervals through Arrow's extension types, strings in Arrow"""

import io

import numpy as np
import pandas as pd


def work(tell):
    random = np.random.default_rng(9)
    frame = pd.DataFrame(
        {
            "period": pd.period_range("2020-01", periods=600, freq="M"),
            "interval": pd.interval_range(0, 600),
            "category": pd.Categorical(random.choice(["x", "y", "z"], 600)),
            "value": random.standard_normal(600),
            "text": pd.array([f"row {i}" for i in range(600)], dtype="string[pyarrow]"),
        }
    )
    file = io.BytesIO()
    frame.to_parquet(file, engine="pyarrow")
    file.seek(0)
    back = pd.read_parquet(file, engine="pyarrow")
    tell("equal", bool(back["period"].equals(frame["period"]) and back["value"].equals(frame["value"])))
    tell("types", [str(kind) for kind in back.dtypes])
    tell("csv", back.to_csv())
    arrow = frame.convert_dtypes(dtype_backend="pyarrow").drop(columns=["period", "interval"])
    tell("arrow", arrow.groupby("category", observed=True)["value"].mean().to_list())
    tell("upper", arrow["text"].str.upper().to_list())
