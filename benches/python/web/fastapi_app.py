"""FastAPI with models of pydantic: an order is checked and priced, a dependency and a parameter make a list."""

import json
from decimal import Decimal
from typing import Annotated, Literal

import fastapi
import pydantic
import worker

CURRENCIES = ("EUR", "USD")


def order(number):
    lines = [{"name": f"part {line}", "count": line + number, "price": f"{line}.{number:02}"} for line in range(1, 9)]
    address = {"street": f"{number} Main Street", "city": "Springfield", "code": f"{number:05}"}
    return json.dumps({"number": number, "currency": CURRENCIES[number % 2], "address": address, "lines": lines}).encode()


REQUESTS = [("GET", f"/items?first={number}&count=12", b"") for number in range(8)]
REQUESTS += [("POST", "/orders", order(number)) for number in range(1, 9)]


class Line(pydantic.BaseModel):
    name: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=40)]
    count: pydantic.PositiveInt
    price: Annotated[Decimal, pydantic.Field(ge=0, decimal_places=2)]


class Address(pydantic.BaseModel):
    street: str
    city: str
    code: Annotated[str, pydantic.StringConstraints(pattern=r"^\d{5}$")]


class Order(pydantic.BaseModel):
    number: int
    currency: Literal["EUR", "USD"]
    address: Address
    lines: list[Line]


class Priced(Order):
    @pydantic.computed_field
    @property
    def total(self) -> Decimal:
        return sum((line.count * line.price for line in self.lines), Decimal())


class Item(pydantic.BaseModel):
    number: int
    name: str
    tags: list[str]


class Window:
    def __init__(self, first: int = 0, count: Annotated[int, fastapi.Query(le=100)] = 10):
        self.numbers = range(first, first + count)


app = fastapi.FastAPI()


@app.post("/orders")
async def price(order: Order, response: fastapi.Response) -> Priced:
    response.headers["x-worker"] = worker.name()
    return Priced(**order.model_dump())


# Not a coroutine, so FastAPI calls it on a thread of its pool.
@app.get("/items")
def items(window: Annotated[Window, fastapi.Depends()], response: fastapi.Response) -> list[Item]:
    response.headers["x-worker"] = worker.name()
    return [Item(number=number, name=f"item {number}", tags=["a", f"of {number % 3}"]) for number in window.numbers]
