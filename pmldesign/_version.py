"""The format of everything that pmldesign writes and reads again, and the versions of packages."""

from functools import cache

FORMAT = 1
"""Of strategies, measurements, manifests, certificates, states, ledgers and sweeps. It grows with
every change that a reader has to know, and only this format is read."""


@cache
def version(package: str) -> str:
    """The version of an installed package, whose page of facts is read once."""
    from importlib import metadata

    return metadata.version(package)
