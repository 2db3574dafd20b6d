"""SQL on threads of its own, a data frame by its name, a function in Python, files, errors"""

import tempfile

import duckdb
import pandas as pd


def work(tell):
    connection = duckdb.connect(config={"threads": 2})
    connection.execute("create table t as select range n, range % 7 g, 'ü' || range s from range(20000)")
    tell("groups", connection.execute("select g, sum(n), max(s) from t group by g order by g").fetchall())
    frame = pd.DataFrame({"a": range(100), "b": [f"x{i % 3}" for i in range(100)]})
    tell("frame", connection.execute("select b, avg(a) from frame group by b order by b").fetchall())
    connection.create_function("twice", lambda n: n * 2, ["BIGINT"], "BIGINT")
    tell("function", connection.execute("select sum(twice(n)) from t where n < 500").fetchall()[0][0].__int__())
    tell("window", connection.execute("select n, lag(n, 2) over (partition by g order by n) from t where n < 40 order by n").fetchall())
    with tempfile.TemporaryDirectory() as folder:
        connection.execute(f"copy t to '{folder}/t.parquet' (format parquet)")
        tell("parquet", connection.execute(f"select count(*), sum(n) from '{folder}/t.parquet'").fetchone()[0])
    tell("arrays", connection.execute("select n from t where g = 3 order by n").fetchnumpy()["n"])
    tell("json", connection.execute("select to_json({'a': [1, null], 'b': 'ü'})").fetchone()[0])
    try:
        connection.execute("select nothing from t")
    except duckdb.BinderException as error:
        tell("error", str(error).splitlines()[0])
    connection.close()
