"""Floats in lists: bodies that attract each other."""

from kernels.bodies import BODIES

STEPS = 5_000


def _advance(bodies, pairs, step):
    for (place, speed, mass), (other_place, other_speed, other_mass) in pairs:
        x = place[0] - other_place[0]
        y = place[1] - other_place[1]
        z = place[2] - other_place[2]
        pull = step * (x * x + y * y + z * z) ** -1.5
        by, on = mass * pull, other_mass * pull
        speed[0] -= x * on
        speed[1] -= y * on
        speed[2] -= z * on
        other_speed[0] += x * by
        other_speed[1] += y * by
        other_speed[2] += z * by
    for place, speed, _ in bodies:
        place[0] += step * speed[0]
        place[1] += step * speed[1]
        place[2] += step * speed[2]


def run():
    bodies = [(list(place), list(speed), mass) for place, speed, mass in BODIES]
    pairs = [(one, other) for at, one in enumerate(bodies) for other in bodies[at + 1 :]]
    for _ in range(STEPS):
        _advance(bodies, pairs, 0.01)
    return repr([place for place, _, _ in bodies])
