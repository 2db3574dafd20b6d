"""The figures that an application has with prometheus_client."""

import sys


def collect():
    """The default registry in Prometheus' text format. None if the application does not use it, or is importing it just now."""
    client = sys.modules.get("prometheus_client")
    registry, write = getattr(client, "REGISTRY", None), getattr(client, "generate_latest", None)
    if registry is None or write is None:
        return None
    return write(registry).decode()
