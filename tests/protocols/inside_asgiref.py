"""asgiref's own tests, on a thread of the worker, as code of an application uses asgiref."""

import driver


def run():
    return driver.pytest([], ["tests", "-W", "ignore"])
