"""constraints, edits, strengths, an unsatisfiable one"""

from kiwisolver import Solver, UnsatisfiableConstraint, Variable


def work(tell):
    solver = Solver()
    columns = [Variable(f"x{i}") for i in range(40)]
    width = Variable("width")
    solver.addConstraint(columns[0] >= 0)
    for left, right in zip(columns, columns[1:]):
        solver.addConstraint(right - left >= 3)
        solver.addConstraint((right - left == 10) | "weak")
    solver.addConstraint(columns[-1] + 5 <= width)
    solver.addEditVariable(width, "strong")
    for value in (150, 400, 1000):
        solver.suggestValue(width, value)
        solver.updateVariables()
        tell(f"width {value}", [column.value() for column in columns])
    try:
        solver.addConstraint((columns[0] <= -1) | "required")
    except UnsatisfiableConstraint as error:
        tell("error", type(error).__name__)
    tell("text", str(columns[0] * 2 + 3))
