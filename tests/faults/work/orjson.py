"""A document that is nested deeper than the stack is large."""

import orjson

orjson.loads(b"[" * 10000000 + b"]" * 10000000)
