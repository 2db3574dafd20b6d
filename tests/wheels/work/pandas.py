"""groupby, resample with time zones, csv, json, merge, rolling, strings"""

import io

import numpy as np
import pandas as pd


def work(tell):
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "key": random.choice(list("abcde"), 4000),
            "value": random.standard_normal(4000),
            "count": random.integers(0, 100, 4000),
        },
        index=pd.date_range("2024-03-01", periods=4000, freq="15min", tz="Europe/Berlin"),
    )
    tell("groups", frame.groupby("key").agg({"value": ["mean", "std"], "count": "sum"}).to_csv())
    tell("resample", frame["value"].resample("D").median().to_json())
    tell("rolling", frame["value"].rolling(50).skew().to_numpy())
    tell("csv", pd.read_csv(io.StringIO(frame.head(300).to_csv())).to_json(orient="split"))
    merged = frame.reset_index().merge(pd.DataFrame({"key": list("abx"), "name": ["A", "B", "X"]}), how="outer")
    tell("merge", merged["name"].isna().sum().item())
    tell("pivot", frame.pivot_table("value", frame.index.hour, "key").to_csv())
    tell("strings", frame["key"].str.upper().value_counts().sort_index().to_json())
    tell("periods", [str(period) for period in pd.period_range("2024-01", periods=4, freq="Q")])
    tell("custom", frame.groupby("key")["count"].apply(lambda group: int(group.iloc[::7].sum())).to_json())
