"""validation, JSON, schemas, errors, a recursive model"""

from __future__ import annotations

import datetime
from typing import Annotated, Optional

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator


class Node(BaseModel):
    name: str
    weight: Annotated[float, Field(gt=0)]
    when: datetime.datetime
    below: list[Node] = []
    left: Optional[Node] = None

    @field_validator("name")
    @classmethod
    def upper(cls, value):
        return value.upper()


def tree(depth):
    below = [tree(depth - 1) for _ in range(2)] if depth else []
    return {"name": f"n{depth}", "weight": "2.5", "when": "2024-02-29T12:00:00Z", "below": below}


def work(tell):
    node = Node.model_validate(tree(6))
    tell("json", node.model_dump_json())
    tell("again", Node.model_validate_json(node.model_dump_json()) == node)
    tell("schema", repr(Node.model_json_schema()))
    try:
        Node.model_validate({"name": 3, "weight": -1, "when": "never", "below": [{}]})
    except ValidationError as error:
        tell("errors", error.json(include_url=False))
    adapter = TypeAdapter(dict[int, list[datetime.timedelta]])
    tell("adapter", adapter.dump_json(adapter.validate_python({"1": ["P1DT2H", 3.5]})))
