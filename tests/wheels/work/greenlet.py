"""switches, exceptions, trace functions, context variables, threads"""

import contextvars
import threading

import greenlet


def work(tell):
    order = []

    def child(name, partner):
        for i in range(50):
            order.append((name, i))
            if not partner[0].dead:
                partner[0].switch()

    first, second = [None], [None]
    first[0] = greenlet.greenlet(lambda: child("a", second))
    second[0] = greenlet.greenlet(lambda: child("b", first))
    first[0].switch()
    tell("order", order)

    def fails():
        greenlet.getcurrent().parent.switch("first")
        raise KeyError("thrown")

    failing = greenlet.greenlet(fails)
    tell("value", failing.switch())
    try:
        failing.switch()
    except KeyError as error:
        tell("error", str(error))
    variable = contextvars.ContextVar("variable", default=0)

    def sets(value):
        variable.set(value)
        greenlet.getcurrent().parent.switch()
        return variable.get()

    inside = [greenlet.greenlet(sets) for _ in range(20)]
    for value, one in enumerate(inside):
        one.gr_context = contextvars.copy_context()
        one.switch(value)
    tell("contexts", [one.switch() for one in inside])
    results = {}

    def deep(count):
        return 0 if count == 0 else greenlet.greenlet(deep).switch(count - 1) + 1

    threads = [threading.Thread(target=lambda i=i: results.update({i: deep(30 + i)})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell("threads", sorted(results.items()))
