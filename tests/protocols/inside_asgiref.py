"""asgiref's own tests, on a thread of the worker, as code of an application uses asgiref."""


def run(driver):
    return driver.pytest([], ["tests", "-W", "ignore"])
