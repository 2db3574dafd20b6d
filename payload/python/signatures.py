"""The parameters of host functions, read by Python's own grammar."""

# inspect.CO_VARARGS and CO_VARKEYWORDS, without the import of inspect.
VARARGS = 0x04
VARKEYWORDS = 0x08


def read(signature, name):
    """The parameters of `def function SIGNATURE`.

    Names of positional parameters, then of keyword-only ones; how many are positional-only; how many are positional;
    defaults by name; whether there is `*args`; whether there is `**kwargs`; the function, whose errors have the qualified
    name. Defaults are literals: no name is defined where they are evaluated.
    """
    scope = {"__builtins__": {}}
    exec(f"def function{signature}: pass", scope)
    function = scope["function"]
    function.__qualname__ = name
    code = function.__code__
    positional = code.co_argcount
    names = code.co_varnames[: positional + code.co_kwonlyargcount]
    given = function.__defaults__ or ()
    defaults = dict(zip(names[positional - len(given) : positional], given))
    defaults.update(function.__kwdefaults__ or {})
    flags = code.co_flags
    return (
        names,
        code.co_posonlyargcount,
        positional,
        defaults,
        bool(flags & VARARGS),
        bool(flags & VARKEYWORDS),
        function,
    )
