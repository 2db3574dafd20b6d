"""Our importers as torch.package knows importers, for its exporter and for torch.fx."""

from torch.package import OrderedImporter, sys_importer
from torch.package.importer import Importer

from . import package


class Packaged(Importer):
    """The modules of one archive, by their plain names."""

    def __init__(self, importer):
        self._importer = importer

    def __repr__(self):
        return repr(self._importer)

    @property
    def modules(self):
        return self._importer.modules

    def import_module(self, module_name):
        return self._importer.import_module(module_name)


def orders(obj):
    """Importers to name what `obj` refers to by, each with the number of its archive, or None for
    the interpreter's own modules: the archive of its class first, then all others."""
    own = package.mangled_identity(type(obj).__module__)
    archives = sorted(package.installed(), key=lambda importer: importer.identity != own)
    for importer in archives:
        yield importer.identity, OrderedImporter(Packaged(importer), sys_importer)
    yield None, sys_importer
