"""lazy groups on its thread pool, functions of Python, SQL, parquet, a plug-in type, errors"""

import io

import polars as pl


def work(tell):
    frame = pl.DataFrame({"k": [f"g{i % 13}" for i in range(20_000)], "v": [i * 0.5 for i in range(20_000)], "n": list(range(20_000))})
    lazy = frame.lazy().filter(pl.col("n") % 3 == 0).group_by("k").agg(pl.col("v").sum(), pl.col("n").max().alias("m")).sort("k")
    tell("lazy", lazy.collect().rows())
    tell("python", frame.head(200).with_columns(pl.col("n").map_elements(lambda n: n * 3, return_dtype=pl.Int64).alias("t"))["t"].to_list())
    tell("sql", pl.SQLContext(frame=frame).execute("select k, avg(v) a from frame where n > 50 group by k order by k").collect().rows())
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd")
    tell("parquet", pl.read_parquet(io.BytesIO(file.getvalue())).equals(frame))
    tell("csv", frame.head(50).write_csv())
    tell("window", frame.with_columns(pl.col("v").rank("dense").over("k").alias("r")).tail(40).rows())
    tell("join", frame.head(100).join(pl.DataFrame({"k": ["g1", "g2"], "name": ["one", "two"]}), on="k", how="left")["name"].null_count())
    tell("dates", pl.select(pl.datetime_range(pl.date(2024, 2, 27), pl.date(2024, 3, 2), "1d").dt.strftime("%A %j")).to_series().to_list())
    try:
        frame.select("missing")
    except pl.exceptions.ColumnNotFoundError as error:
        tell("error", str(error).splitlines()[0])
