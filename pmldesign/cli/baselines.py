"""The usual strategies that designs are shown beside."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pmldesign.answering import without_total
from pmldesign.errors import InvalidInputError
from pmldesign.neighbours import Neighbours
from pmldesign.solving import dense
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import UnionWorkload, Workload
from pmldesign.workloads.centred import CentredWorkload

BASELINES = ("tree", "haar", "identity", "workload")


def usual_strategies(
    queries: Workload, relation: Neighbours, names: Sequence[str] = BASELINES
) -> list[Strategy]:
    """The baselines that can answer the workload in float64; a note on stderr about others."""
    found = []
    for name in names:
        try:
            strategy = _baseline(name, queries)
            if relation is Neighbours.REPLACE:
                without_total(strategy).require_answers(CentredWorkload(queries))
            else:
                strategy.require_answers(queries)
        except InvalidInputError as error:
            click.echo(f"note: the table leaves out {name!r}: {error}", err=True)
        else:
            found.append(strategy)
    return found


def _baseline(name: str, queries: Workload) -> Strategy:
    if name == "workload" and isinstance(queries, UnionWorkload) and not dense(queries):
        raise InvalidInputError("the inverse of so large a union takes minutes")
    return baseline(name, queries)
