"""Importers of archives with the interface of torch.package's importers, for its exporter and torch.fx."""

from torch.package.importer import Importer


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
