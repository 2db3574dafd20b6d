"""The part of sealing that only the sealed Python itself can do: it compiles modules, and marshals what the start reads.

Each function runs in an interpreter of that Python.
"""

import _imp
import importlib.machinery
import importlib.util
import marshal
import sys
import types
import warnings

# Modules with doubtful literals are sealed as they are. Their authors have seen the warnings.
warnings.simplefilter("ignore")


def facts():
    """The version, and the endings of extension modules in the order in which imports try them."""
    version = "{}.{}.{}".format(*sys.version_info)
    level, serial = sys.version_info[3:]
    if level != "final":
        version += {"alpha": "a", "beta": "b", "candidate": "rc"}[level] + str(serial)
    return version, list(importlib.machinery.EXTENSION_SUFFIXES)


def dumped(value):
    """The value as marshal writes it, equal for equal values.

    marshal notes which objects are referred to more than once. After compile() that depends on what else the interpreter has;
    after a load it depends on the value alone.
    """
    return marshal.dumps(marshal.loads(marshal.dumps(value)))


def compiled(source, name, optimize=0):
    """The code of a module."""
    return dumped(compile(source, name, "exec", dont_inherit=True, optimize=optimize))


def compile_files(files):
    """For each pair of a file and its name in the code: the code, and why there is none."""
    return [_outcome(*pair) for pair in files]


def _outcome(file, name):
    with open(file, "rb") as opened:
        content = opened.read()
    try:
        if not file.endswith(".pyc"):
            return compiled(content, name), ""
        if content[:4] != importlib.util.MAGIC_NUMBER:
            return b"", "it was compiled by another version of Python"
        return dumped(_renamed(marshal.loads(content[16:]), name)), ""
    except Exception as error:
        return b"", "{}: {}".format(type(error).__name__, error)


def _renamed(code, name):
    constants = tuple(
        _renamed(constant, name) if isinstance(constant, types.CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=name, co_consts=constants)


def is_frozen(name):
    """Whether this Python carries the module in its library."""
    return _imp.is_frozen(name)


def listing(files, modules):
    """A directory's listing, marshalled: rows of files, and of modules."""
    return dumped(
        (
            {name: place for name, place in files},
            {tail: tuple(row) for tail, *row in modules},
        )
    )


def listings(directories):
    return [listing(files, modules) for files, modules in directories]


def places(directories):
    """The places of listings, marshalled."""
    return dumped({name: (offset, length) for name, offset, length in directories})


def boot(root, directories, others, resources, paths, lines, allow, frozen, entry):
    """What the finder reads first, marshalled: `directories` are those of `paths`, and `others` is where the rest's places are."""
    return dumped(
        {
            "root": root,
            "directories": {name: (offset, length) for name, offset, length in directories},
            "others": tuple(others),
            "resources": tuple(resources),
            "paths": list(paths),
            "lines": [tuple(line) for line in lines],
            "allow": list(allow),
            "frozen": list(frozen),
            "entry": entry,
        }
    )
