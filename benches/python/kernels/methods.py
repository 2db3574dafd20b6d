"""Calls of small methods over a hierarchy of classes: a planner of constraints, after the benchmark DeltaBlue."""

from kernels.constraints import Constraint, Equal, Scaled, Variable

LENGTH = 120


def _chain():
    """Variables that depend on each other in turn."""
    scale, offset = Variable(3), Variable(1)
    variables = [Variable(number) for number in range(LENGTH)]
    constraints: list[Constraint] = [
        Scaled(one, other, scale, offset) if at % 4 == 0 else Equal(one, other)
        for at, (one, other) in enumerate(zip(variables, variables[1:], strict=False))
    ]
    return variables, constraints


def _plan(first, mark):
    plan, waiting = [], [first]
    while waiting:
        variable = waiting.pop()
        variable.mark = mark
        for constraint in variable.constraints:
            if constraint.is_satisfied() and constraint.inputs_known(mark):
                target = constraint.output()
                if target.mark != mark and target is not variable:
                    plan.append(constraint)
                    waiting.append(target)
    return plan


def run():
    variables, _ = _chain()
    for mark in range(1, 120):
        plan = _plan(variables[0], mark)
        for value in range(5):
            variables[0].value = value + mark
            for constraint in plan:
                constraint.execute()
                variables[-1].value %= 1_000_003
    return repr((len(plan), variables[-1].value, variables[LENGTH // 2].value))
