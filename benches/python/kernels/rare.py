"""`unbound` imports this and never uses it in the recorded work."""


def explain(number):
    return f"{number} is a rare number"
