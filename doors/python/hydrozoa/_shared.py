"""Objects that every interpreter of an executor has, with their memory in one place; and packages of torch.package."""

import os
from ctypes import byref

import _hydrozoa_share as _share

from ._library import Error, Owned, Value, bytes_of, check, library, made

_INT = 2


class _Closing:
    """Something that the library keeps for an executor's interpreters, until it is closed."""

    def _usable(self):
        if (owned := self._owned) is None:
            raise Error(f"the {self._called} is closed, or its executor is shut down")
        return owned

    def close(self):
        self._owned = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Remote(_share.Reference):
    """Something that the interpreters of an executor have."""

    def __init__(self, executor, key):
        super().__init__(key)
        self._executor = executor
        _share.known[key] = self

    def __call__(self, /, *arguments, **keywords):
        """Calls it on an interpreter of the executor, and waits for the result."""
        return self._executor.submit(self, *arguments, **keywords).result()


class Shared(_Closing, _Remote):
    """An object for every interpreter of an executor. Each makes its copy at its first use, and all copies share the memory of
    their tensors and arrays.

    Call it, or give it to `submit` and `map` as the function: the executor's interpreters run their copies. In a function there
    it is an argument like others, whose attribute `object` is the copy. It ends with its executor, or when it is closed or
    forgotten.
    """

    _called = "shared object"

    def __init__(self, executor, pool, handle):
        super().__init__(executor, ("movable", library.hz_movable_id(handle)))
        self._pool = pool
        self._owned = Owned("movable", handle, is_process_s=True)
        pool.shared[id(self)] = self

    def __call__(self, /, *arguments, **keywords):
        self._usable()
        return super().__call__(*arguments, **keywords)

    def __reduce_ex__(self, protocol):
        self._usable()
        return super().__reduce_ex__(protocol)

    def unload(self):
        """Drops the copies of all interpreters. The next use makes them again."""
        owned = self._usable()
        pool = self._executor._usable_pool().owned()
        for index in range(library.hz_pool_size(pool.value)):
            session = made("hz_pool_acquire_on", pool.value, index)
            try:
                check("hz_movable_unload", owned.value, session)
            finally:
                library.hz_session_free(session)

    def close(self):
        """Gives the object up. Each interpreter drops its copy with its next call."""
        super().close()


def share(executor, pool, object):
    session = pool.session(0)
    try:
        handle = session.handle
        # If the object cannot be loaded there, this raises the same exception here.
        key = session.call(_share.keep, object)
        try:
            movable = _movable(handle, key)
        finally:
            session.call(_share.forget, key)
    finally:
        session.close()
    return Shared(executor, pool, movable)


def _movable(session, key):
    number, handles = Value(_INT, 0), []
    number.data.integer = key
    try:
        handles.append(made("hz_session_import", session, b"_hydrozoa_share"))
        handles.append(made("hz_object_getattr", handles[-1], session, b"kept"))
        handles.append(made("hz_object_get_item", handles[-1], session, byref(number)))
        return made("hz_session_create_movable", session, handles[-1])
    finally:
        for handle in handles:
            library.hz_object_free(handle)


class Package(_Closing):
    """A file written by torch.package, for the interpreters of an executor. None of it is loaded into the program."""

    _called = "package"

    def __init__(self, executor, pool, file, is_own=False):
        self._executor, self._pool, self._is_own = executor, pool, is_own
        pool_s = pool.owned()
        self._owned = owned = Owned(
            "package", made("hz_pool_load_package", pool_s.value, os.fsencode(file)), is_process_s=True)
        self._id = library.hz_package_id(owned.value)
        pool.shared[id(self)] = self

    def _loaded(self, function, package, resource):
        owned = self._usable()
        return made(function, owned.value, package.encode(), resource.encode())

    def load_pickle(self, package, resource):
        """An object that was saved with `save_pickle`, as of `Executor.share`. One interpreter loads it now."""
        return Shared(self._executor, self._pool, self._loaded("hz_package_load_pickle", package, resource))

    def load_binary(self, package, resource):
        """The bytes of a resource."""
        return bytes_of(self._loaded("hz_package_load_binary", package, resource))

    def load_text(self, package, resource):
        """The text of a resource."""
        return bytes_of(self._loaded("hz_package_load_text", package, resource)).decode()

    def import_module(self, name):
        """A module of the package. Its functions run on the executor's interpreters."""
        self._usable()
        self._executor.submit(_share.import_module, self._id, name).result()
        return Module(self, name)

    def close(self):
        """Gives the package up. Objects loaded from it stay."""
        super().close()
        if self._is_own:
            self._executor.shutdown()


class Module:
    """A module of a package. Its attributes are functions and classes, which the executor's interpreters call."""

    def __init__(self, package, name):
        self._package, self._name = package, name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"the module {self._name!r} of a package has no attribute {name!r} here")
        return Function(self._package, self._name, name)


class Function(_Remote):
    """A function of a package, which the executor's interpreters call: by a call of this, or with `submit` and `map`."""

    def __init__(self, package, module, name):
        super().__init__(package._executor, ("module", package._id, module, name))
        self._package = package

    def __getattr__(self, name):
        """A function of a class."""
        if name.startswith("_"):
            raise AttributeError(f"a function of a package has no attribute {name!r} here")
        _, _, module, own = self._key
        return Function(self._package, module, f"{own}.{name}")
