"""types of a program checked by mypy's compiled modules, in this process"""

import tempfile
from pathlib import Path

from mypy import api, nodes

PROGRAM = '''
from typing import Protocol, TypeVar, Generic
T = TypeVar("T")
class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value
    def get(self) -> T:
        return self.value
class Named(Protocol):
    name: str
def show(one: Named) -> str:
    return one.name + 1
reveal_type(Box([1, 2.5]).get())
x: int = Box("a").get()
show(3)
'''


def work(tell):
    tell("compiled", nodes.__file__.endswith(".so"))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        output, errors, status = api.run(
            [str(program), "--cache-dir", f"{folder}/cache", "--no-error-summary", "--config-file", "", "--hide-error-context"]
        )
        tell("output", [line.removeprefix(folder) for line in output.replace(folder, "").splitlines()])
        tell("status", [errors, status])
