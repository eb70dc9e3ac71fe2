"""pmldesign bounds WORKLOAD --p 4 --epsilon 1 [guarantee options] [--json]."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from pmldesign.bounds import Bound, Kind, bounds
from pmldesign.cli.baselines import usual_rows
from pmldesign.cli.options import (
    add_options,
    build_guarantee,
    gap_options,
    guarantee_options,
    json_option,
)
from pmldesign.cli.show import facts, number, print_json, progress, table
from pmldesign.comparison import compare
from pmldesign.design import design
from pmldesign.errors import InvalidInputError
from pmldesign.files import load_workload
from pmldesign.workloads.base import count_text


@click.command(name="bounds")
@click.argument("workload")
@click.option("--p", type=float, default=2.0, show_default=True, help="Of the error; 2 to inf.")
@add_options(guarantee_options)
@add_options(gap_options)
@json_option
def command(
    workload: str,
    p: float,
    rel_gap: float,
    time_limit: float | None,
    device: str,
    noise: Any,
    as_json: bool,
    **guarantee_arguments: Any,
) -> None:
    """Show how close to the best possible the error on WORKLOAD is: lower and upper bounds.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products and by + for unions, a .npy, .npz, .csv or .mtx file, or - for standard input. Each
    bound says which mechanisms it speaks of; those that do not apply say why.
    """
    queries = load_workload(workload)
    guarantee = build_guarantee(**guarantee_arguments)
    if guarantee is None:
        raise InvalidInputError("bounds are for a guarantee; add for example --epsilon 1")
    with progress() as callback:
        made = design(
            queries,
            p=p,
            neighbours=guarantee.neighbours,
            rel_gap=rel_gap,
            time_limit=time_limit,
            device=device,
            callback=callback,
        )
        reached = compare(
            queries,
            [made.strategy.renamed("norm-optimal")],
            p=p,
            guarantee=guarantee,
            noise=noise,
        )
        usual = usual_rows(
            queries,
            ("tree", "identity"),
            p=p,
            guarantee=guarantee,
            noise=noise,
            neighbours=guarantee.neighbours,
            announce=callback,
        )
    norm = made.certificate
    found = bounds(
        queries,
        norm_lower=norm.lower,
        norm_upper=norm.upper,
        p=p,
        guarantee=guarantee,
        errors={f"{row.strategy}, {row.noise} noise": row.error for row in [*reached.rows, *usual]},
    )
    if as_json:
        print_json([{**asdict(bound), "holds": bound.holds} for bound in found])
        return
    m, n = queries.shape
    facts(
        [
            ("workload", f"{queries.name}: {count_text(m)} queries on {count_text(n)} cells"),
            ("norm", f"gamma_({p:g}) between {norm.lower:.9g} and {norm.upper:.9g}"),
            ("guarantee", guarantee.describe(n)),
        ]
    )
    _print(found)


def _print(found: tuple[Bound, ...]) -> None:
    """The bounds that hold by size, then the reasons of the others."""
    ordered = sorted(
        (bound.value, index) for index, bound in enumerate(found) if bound.value is not None
    )
    click.echo()
    table(
        ["bound", "kind", "value", "mechanisms"],
        [
            [found[i].name, found[i].kind.value, number(value), found[i].mechanisms]
            for kind in Kind
            for value, i in ordered
            if found[i].kind is kind
        ],
    )
    click.echo("\nnot applicable:")
    facts([(f"  {bound.name}", bound.reason) for bound in found if not bound.holds])
