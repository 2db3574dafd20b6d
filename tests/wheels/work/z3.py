"""a puzzle, bit vectors, quantifiers, an optimum, contexts of one's own"""

import z3


def work(tell):
    solver = z3.Solver()
    queens = [z3.Int(f"q{i}") for i in range(8)]
    solver.add(*[z3.And(0 <= q, q < 8) for q in queens], z3.Distinct(queens))
    solver.add(*[z3.And(queens[i] - queens[j] != i - j, queens[i] - queens[j] != j - i) for i in range(8) for j in range(i)])
    tell("queens", str(solver.check()))
    model = solver.model()
    places = [model[q].as_long() for q in queens]
    tell("places", len({place + i for i, place in enumerate(places)}) == 8)
    x, y = z3.BitVecs("x y", 32)
    solver = z3.Solver()
    solver.add(x * y == 1234567 * 89, z3.ULT(x, y), z3.UGT(x, 1), z3.ULT(y, 1 << 25))
    tell("bits", str(solver.check()))
    optimum = z3.Optimize()
    a, b = z3.Reals("a b")
    optimum.add(a + 2 * b <= 14, 3 * a - b >= 0, a - b <= 2)
    optimum.maximize(3 * a + 4 * b)
    tell("optimum", [str(optimum.check()), str(optimum.model()[a]), str(optimum.model()[b])])
    tell("simplified", str(z3.simplify(z3.And(a > a, b == b, z3.Or(a > 1, True)))))
    context = z3.Context()
    p = z3.Bool("p", context)
    tell("context", str(z3.Solver(ctx=context).check(p, z3.Not(p))))
    try:
        z3.parse_smt2_string("(assert (> nothing 3))")
    except z3.Z3Exception as error:
        tell("error", str(error))
