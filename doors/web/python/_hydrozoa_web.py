"""Finds the application that `hydrozoa run MODULE:APP` names, and says which interface it has."""

import ast
import inspect
import sys


class Refused(Exception):
    """A wrong command line: its text says all, and no traceback helps."""


def load(target, factory, interface):
    """The application, and `wsgi` or `asgi`."""
    name, _, expression = target.partition(":")
    module = _module(name)
    application = _found(module, name, expression)
    if factory:
        if not callable(application):
            raise Refused(f"--factory: {target} is {_kind(application)}, and cannot be called")
        application = application()
    if not callable(application):
        raise Refused(f"{target} is {_kind(application)}, and neither a WSGI nor an ASGI application")
    return application, _interface(application) if interface == "auto" else interface


def _kind(value):
    return f"an object of {type(value).__qualname__}"


def _module(name):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            # A module that the application imports.
            raise
        raise Refused(
            f"there is no module {error.name!r} for {name!r}: it is searched for in --app-dir (by default the current directory), "
            f"and among the packages of --venv"
        ) from None
    return sys.modules[name]


def _found(module, name, expression):
    """The object that the expression names in the module: `app`, `apps.main`, or `create("production", debug=False)`."""
    if not expression:
        for default in ("application", "app"):
            if hasattr(module, default):
                return getattr(module, default)
        raise Refused(f"the module {name!r} has neither `application` nor `app`: name the attribute, as {name}:ATTRIBUTE")
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError:
        raise Refused(f"{expression!r} is neither an attribute of {name!r} nor a call of one with literals") from None
    if not isinstance(tree, ast.Call):
        return _attribute(module, name, tree, expression)
    try:
        positional = [ast.literal_eval(argument) for argument in tree.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords}
    except ValueError:
        raise Refused(f"{expression!r}: the arguments of a factory are literals, such as 1, 'a' or None") from None
    if None in named:
        raise Refused(f"{expression!r}: ** is not a literal")
    return _attribute(module, name, tree.func, expression)(*positional, **named)


def _attribute(module, name, tree, expression):
    names = []
    while isinstance(tree, ast.Attribute):
        names.append(tree.attr)
        tree = tree.value
    if not isinstance(tree, ast.Name):
        raise Refused(f"{expression!r} is neither an attribute of {name!r} nor a call of one with literals")
    value, seen = module, name
    for attribute in [tree.id, *reversed(names)]:
        try:
            value = getattr(value, attribute)
        except AttributeError:
            raise Refused(f"{seen!r} has no attribute {attribute!r}") from None
        seen = f"{seen}.{attribute}"
    return value


def _interface(application):
    called = application if inspect.isroutine(application) else getattr(application, "__call__", None)
    is_asgi = inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(called)
    if inspect.isclass(application):
        is_asgi = hasattr(application, "__await__")
    return "asgi" if is_asgi else "wsgi"
