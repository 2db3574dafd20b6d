"""The C++ extension in one copy: extension_areas.py LIBRARY. Right in plain python, and right in every copy at once."""

import importlib.util
import os
import pickle
import sys
import threading

import torch

COPY = int(os.environ.get("HYDROZOA_COPY", "0"))


def load(path):
    spec = importlib.util.spec_from_file_location("areas_extension", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def raised(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} expected from {call}")


def check_static_state(extension):
    # Other copies count at the same time, another number of times: only an own counter gives these numbers.
    rounds = 1000 + COPY * 100
    assert [extension.count() for _ in range(rounds)] == list(range(1, rounds + 1)), "the counter is shared"


def check_calling_conventions(extension):
    """Operators in C++ run this copy's own code, on this copy's own static state, however they are called."""
    operators, x = torch.ops.hydrozoa_extension, torch.ones(4)
    expected = extension.calls()

    def count(by=1):
        nonlocal expected
        expected += by
        return expected

    for _ in range(100 + COPY * 10):
        assert torch.equal(operators.counted(x), x + count() + 1000)
        y = x.clone()
        assert operators.counted_(y) is y and torch.equal(y, x + count())
        operators.counted_elements(x)
        count(4)
        pair = operators.counted_pair(x, 2.0)
        assert torch.equal(pair[0], x * 2) and pair[1] == count()
        assert torch.equal(operators.counted_symbolic(x, 5), x + 5 + count())
        assert torch.equal(operators.counted_many(x, 0.5, 0.25, 1, 2, 3, 4, 5, True, 0.125), x + 16.875)
        count()
        assert torch.equal(operators.counted_inferred(x, 3, True), x + 3 + count())
        sums = [4.0 * (1 + count() + 1000), 4.0 * (1 + count()), 10.0]
        count(4)
        sums += [count(), 4.0 * (4 + count()), 4 * 17.875]
        count()
        sums += [4.0 * (8 + count())]
        assert extension.call_typed(x) == sums
        assert extension.calls() == expected, "the counter is shared"
    accumulator = torch.classes.hydrozoa_extension.Accumulator(COPY + 0.75)
    assert operators.rounded(accumulator) == COPY + 1


def check_exceptions(extension):
    for index in range(200):
        assert raised(extension.Refusal, extension.refuse, f"no {index}") == f"no {index}"
        assert "7" in raised(IndexError, extension.element, [1, 2], 7)

        def fails(size):
            raise LookupError(f"copy {COPY} {size}")

        assert raised(LookupError, extension.through, fails) == f"copy {COPY} 53"
        assert extension.caught(lambda: {}["missing"]) == "caught KeyError"
        # C++ -> Python -> C++ that throws -> back through Python to C++, as the exception that pybind11 made of it.
        assert extension.caught(lambda: extension.refuse("inner")) == "caught Refusal"
        assert extension.through(lambda size: size + index) == 53 + index, "a result through C++"
    integers = torch.ones(2, dtype=torch.int64)
    for function in (extension.twice_plus, torch.ops.hydrozoa_extension.twice_plus):
        assert "floating point" in raised(RuntimeError, function, integers, 1.0)


def check_operators(extension):
    x = torch.arange(8, dtype=torch.float32)
    assert torch.equal(extension.twice_plus(x, 1.5), x * 2 + 1.5)
    for _ in range(200):
        assert torch.equal(torch.ops.hydrozoa_extension.twice_plus(x, COPY + 0.5), x * 2 + COPY + 0.5)
    scripted = torch.jit.script(scripted_twice)
    assert torch.equal(scripted(x), x * 2 + 3)


def scripted_twice(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.hydrozoa_extension.twice_plus(x, 3.0)


def check_classes(extension):
    accumulator = torch.classes.hydrozoa_extension.Accumulator(float(COPY))
    for index in range(200):
        assert accumulator.add(1.0) == COPY + index + 1
    assert "not negative" in raised(Exception, accumulator.add, -1.0)
    assert pickle.loads(pickle.dumps(accumulator)).add(0.0) == COPY + 200


def main():
    (path,) = sys.argv[1:]
    torch.set_num_threads(1)
    extension = load(path)
    checks = [check_static_state, check_exceptions, check_operators, check_classes]
    for check in checks:
        check(extension)
    check_calling_conventions(extension)
    failures = []

    def work():
        try:
            check_exceptions(extension)
            check_operators(extension)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    # One write, so that the lines of copies do not mix.
    sys.stdout.write(f"copy {COPY}: {len(checks)} checks of the extension passed\n")


if __name__ == "__main__":
    main()
