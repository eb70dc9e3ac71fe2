"""The usual strategies that designs are shown beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from pmldesign.comparison import Row, compare_all
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import Guarantee
from pmldesign.mechanism import NoiseChoice
from pmldesign.neighbours import Neighbours
from pmldesign.workloads import Workload

BASELINES = ("tree", "haar", "identity", "workload")


def usual_rows(
    queries: Workload,
    names: Sequence[str] = BASELINES,
    *,
    p: float,
    guarantee: Guarantee | None,
    noise: NoiseChoice,
    neighbours: Neighbours,
    announce: Callable[[str], None],
) -> list[Row]:
    """The rows of the baselines that answer the workload in float64, within minutes.

    A note on stderr says why others are left out. Ctrl-C leaves out what is not done.
    """
    rows: list[Row] = []
    for name in names:
        announce(f"comparing with {name!r}")
        try:
            found = compare_all(
                [queries],
                [name],
                p=p,
                guarantees=[guarantee],
                noise=noise,
                neighbours=neighbours,
                leave_out=True,
            )
        except InvalidInputError as error:
            click.echo(f"note: the table leaves out {name!r}: {error}", err=True)
        except KeyboardInterrupt:
            click.echo(f"note: the table ends before {name!r}: interrupted", err=True)
            break
        else:
            rows += found[0].rows
    return rows
