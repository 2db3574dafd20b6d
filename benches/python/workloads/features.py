"""Features from a table of events with pandas: parsing, groups, joins, windows and categories."""

import io
import random

import pandas
from workloads import CALLS, digest

EVENTS, USERS, PRODUCTS = 2_000, 100, 40


def _events(seed):
    """A table of events as CSV."""
    draw = random.Random(seed)
    lines, moment = ["user,product,moment,amount,channel"], 1_700_000_000
    for _ in range(EVENTS):
        moment += draw.randrange(1, 600)
        amount = "" if draw.random() < 0.02 else f"{draw.expovariate(0.05):.2f}"
        channel = draw.choice(("web", "app", "shop", "phone"))
        lines.append(f"{draw.randrange(USERS)},{draw.randrange(PRODUCTS)},{moment},{amount},{channel}")
    return "\n".join(lines)


def _features(text, products):
    events = pandas.read_csv(io.StringIO(text))
    events["amount"] = events["amount"].fillna(events["amount"].median())
    events["moment"] = pandas.to_datetime(events["moment"], unit="s")
    events["hour"] = events["moment"].dt.hour
    events["weekend"] = events["moment"].dt.day_of_week >= 5
    events = events.merge(products, on="product", how="left")
    events["share"] = events["amount"] / events["price"]
    groups = events.groupby("user")
    events["gap"] = groups["moment"].diff().dt.total_seconds().fillna(-1.0)
    events["rank"] = groups["amount"].rank(method="first")
    windows = groups["amount"].rolling(5, min_periods=1).mean()
    events["recent"] = windows.reset_index(level=0, drop=True)
    by_channel = pandas.get_dummies(events[["user", "channel"]], columns=["channel"], dtype="float64")
    users = groups.agg(
        count=("amount", "size"),
        total=("amount", "sum"),
        largest=("amount", "max"),
        spread=("amount", "std"),
        gap=("gap", "median"),
        recent=("recent", "last"),
        weekends=("weekend", "mean"),
        late=("hour", lambda hours: (hours >= 20).mean()),
    )
    users = users.join(by_channel.groupby("user").mean()).join(
        events.pivot_table(index="user", columns="kind", values="share", aggfunc="mean", fill_value=0.0)
    )
    users["band"] = pandas.qcut(users["total"], 5, labels=False)
    return users.sort_values(["band", "total"], ascending=[True, False])


def make(_folder):
    draw = random.Random(CALLS)
    kinds = [draw.choice(("book", "food", "tool")) for _ in range(PRODUCTS)]
    prices = [draw.uniform(1, 100) for _ in range(PRODUCTS)]
    products = pandas.DataFrame({"product": range(PRODUCTS), "kind": kinds, "price": prices})
    inputs = [_events(seed) for seed in range(CALLS)]

    def call(n):
        users = _features(inputs[n], products)
        values = users.to_numpy("float64")
        return digest(",".join(users.columns).encode(), users.index.to_numpy("int64").tobytes(), values.tobytes())

    return call
