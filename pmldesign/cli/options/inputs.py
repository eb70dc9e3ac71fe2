"""Options that name what is read."""

from __future__ import annotations

import click

participation_option = click.option(
    "--participation",
    metavar="K,every=B|K,min-sep=B",
    help="Streams: a person takes part in up to K steps, exactly or at least B apart.",
)
