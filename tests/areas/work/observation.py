"""profiler with scopes and schedules, anomaly mode, counted operations, function modes, logging, benchmark timers, deterministic algorithms"""

import logging

from common import perceptron, rand, raised, randn

import torch
import torch.utils.benchmark
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode


def profiled():
    model, x = perceptron(1), rand(4, 8, seed=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        with torch.profiler.record_function("outer scope"):
            output = model(x)
    counts = {event.key: event.count for event in profile.key_averages()}
    names = ("outer scope", "aten::linear", "aten::addmm", "aten::relu")
    return [output.detach(), [[name, counts.get(name, 0)] for name in names]]


def scheduled():
    seen = []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2)
    handler = lambda profile: seen.append(sum(event.key == "aten::mm" for event in profile.key_averages()))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=handler
    ) as profile:
        for step in range(4):
            rand(3, 3, seed=step) @ rand(3, 3, seed=step + 1)
            profile.step()
    return seen


def anomaly():
    def backward():
        with torch.autograd.detect_anomaly():
            x = torch.zeros(1, requires_grad=True)
            (torch.sqrt(x) * 0).backward()

    message = raised(backward, RuntimeError)
    with torch.autograd.set_detect_anomaly(True):
        y = randn(4, seed=2).requires_grad_(True)
        (y * y).sum().backward()
    return [message, y.grad, torch.is_anomaly_enabled()]


class Counts(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


def function_mode():
    with Counts() as counts:
        total = (torch.ones(3) + 1).sum()
    return [total, counts.names]


def operations():
    with FlopCounterMode(display=False) as counter:
        perceptron(3)(rand(4, 8, seed=3)).sum().backward()
    return counter.get_total_flops()


def logged():
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.levelname)
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(handler)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.info("one")
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate
    return records


def deterministic():
    values = [torch.are_deterministic_algorithms_enabled()]
    torch.use_deterministic_algorithms(True)
    try:
        values.append(torch.are_deterministic_algorithms_enabled())
        index = torch.tensor([0, 1, 0, 2])
        values.append(torch.zeros(3).index_add_(0, index, randn(4, seed=4)))
        values.append(raised(lambda: torch.nn.functional.max_unpool1d(rand(1, 1, 2, seed=5), torch.tensor([[[0, 2]]]), 2), RuntimeError))
    finally:
        torch.use_deterministic_algorithms(False)
    return values


def work(tell):
    tell("profiler", profiled())
    tell("profiler schedule", scheduled())
    tell("anomaly mode", anomaly())
    tell("function mode", function_mode())
    tell("counted operations", operations())
    tell("logging", logged())
    tell("deterministic algorithms", deterministic())
    timer = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(2)})
    tell("benchmark timer", timer.timeit(10).number_per_run)
