"""What `unbound` imports and never uses in the work that a profile is recorded of."""


def explain(number):
    return f"{number} is a rare number"
