"""lists that are frozen, hashed, compared"""

from frozenlist import FrozenList, PyFrozenList


def work(tell):
    tell("compiled", FrozenList is not PyFrozenList)
    values = FrozenList(range(300))
    values.insert(3, -1)
    values.reverse()
    tell("values", list(values))
    values.freeze()
    tell("frozen", values.frozen)
    tell("hash", hash(values))
    try:
        values.append(1)
    except RuntimeError as error:
        tell("error", str(error).split("(")[0])
