"""What few programs need of a sealed application's finder: changes to modules that read the machine's files.

It is the frozen module `_hydrozoa_sealed_resources`, which `_hydrozoa_sealed` imports when it is needed. Resources, distributions and namespace
packages need none of it: importlib opens and lists stored files by their paths, as any program does.
"""

import sys

import _hydrozoa_sealed as sealed


# zoneinfo


def change_tzpath(module):
    """Looks for no time zones on the machine. A program may still name directories with them."""
    if sealed.is_allowed("zone"):
        return
    stock = module.reset_tzpath

    def reset_tzpath(to=None):
        stock(() if to is None else to)

    module.reset_tzpath = reset_tzpath
    reset_tzpath()


def change_zoneinfo(module):
    """Says how to have time zones."""
    if sealed.is_allowed("zone"):
        return
    stock = module.load_tzdata

    def load_tzdata(key):
        try:
            return stock(key)
        except module.ZoneInfoNotFoundError as error:
            advice = "seal this application with --with tzdata, or --allow zone for the machine's"
            raise module.ZoneInfoNotFoundError(f"{error.args[0]} ({advice})") from error.__cause__

    module.load_tzdata = load_tzdata


# ssl


def change_ssl(module):
    """Reads no certificates of the machine, unless that is allowed."""
    if sealed.is_allowed("certs"):
        return

    def nothing(self, *arguments, **named):
        """The machine's certificates do not count."""

    def get_default_verify_paths():
        import _ssl

        names = _ssl.get_default_verify_paths()
        return module.DefaultVerifyPaths(None, None, *names)

    context = module.SSLContext
    context.set_default_verify_paths = context.load_default_certs = nothing
    module.get_default_verify_paths = get_default_verify_paths
    for kind in (module.SSLSocket, module.SSLObject):
        kind.do_handshake = _explain(module, kind.do_handshake)


def _explain(module, stock):
    """Adds to the error of a peer whose certificate nobody could verify how to have certificates."""

    def do_handshake(self, *arguments, **named):
        try:
            return stock(self, *arguments, **named)
        except module.SSLCertVerificationError as error:
            if not self.context.cert_store_stats()["x509_ca"]:
                error.strerror = f"{error.strerror} (the machine's certificates are not for this sealed application; seal it with --allow certs, or use certifi)"
                error.args = error.args[:1] + (error.strerror,)
            raise

    return do_handshake


# pkg_resources


def change_pkg_resources(module):
    """Lets pkg_resources find the distributions in the application's file."""
    module.register_finder(sealed.Folder, module.find_on_path)
    module.working_set.entries.clear()
    for path in sys.path:
        module.working_set.add_entry(path)
