"""A callback shrinks the list that is written."""

import rapidjson


class Value:
    pass


values = [Value() for _ in range(256)]


def default(value):
    del values[128:]


rapidjson.dumps(values, default=default)
