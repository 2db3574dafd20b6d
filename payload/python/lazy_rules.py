"""Rules for particular packages, so that their modules' imports can be made when they are needed."""

_EAGER = {
    # libtorch imports it under std::call_once (torch::get_dynint_class). Imports that begin there, and reach the same place again,
    # would wait for themselves.
    "torch.fx.experimental.sym_node",
}
"""Modules that are imported where the statements stand, and whose own statements are not changed."""

_DEFERRED = {
    # It ends with activate_meta(), which registers what torch's tables of decompositions hold at that moment. They are full only
    # when all of torch is imported. Before that, what a missing one would compute reaches beyond the profile and has it imported.
    "torch": frozenset({"torch._meta_registrations"}),
}
"""Statements of a module that wait until everything is imported: those with an import of one of these modules."""

ATTRIBUTES = {
    # torch says so: these lines add members for other users.
    "torch": frozenset({"torch.nn.intrinsic", "torch.nn.qat", "torch.nn.quantizable", "torch.nn.quantized"}),
}
"""Submodules that a module imports, and does not use, without another effect than that they are attributes."""

READ_WHAT_IS_BOUND = frozenset({"torch.jit._builtins"})
"""Modules that go through all names of another one and look for functions of C code. An import statement binds none of these."""


def is_eager(name):
    return name in _EAGER


def stays(name):
    return name in _EAGER


def deferred(name):
    return _DEFERRED.get(name, frozenset())


def key(name):
    """The rules' part in the key of the module's compiled code."""
    return "1"
