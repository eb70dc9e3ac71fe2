"""pmldesign bounds WORKLOAD --p 4 --epsilon 1 [guarantee options] [--json]."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pmldesign.bounds import Bound, Kind, all_bounds
from pmldesign.cli.options import common, guarantees, inputs, outputs
from pmldesign.cli.pages.comparison import bounds_page
from pmldesign.cli.reports.baselines import usual_rows
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.process import interrupted
from pmldesign.cli.terminal.show import facts, note, print_json, progress, table
from pmldesign.comparison.comparison import compare
from pmldesign.designs.min_norm import Design, factorize
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.privacy.digits import at_least, at_most, shortest
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.strategies.known import with_known
from pmldesign.workloads import Workload
from pmldesign.workloads.base import count_text
from pmldesign_solvers.norm.solution import Status

HEADER = ("bound", "kind", "value", "mechanisms")


@click.command(name="bounds")
@click.argument("workload", type=WorkloadName())
@click.option("--p", type=float, default=2.0, show_default=True, help="Of the error; 2 to inf.")
@common.add_options(guarantees.guarantee_options)
@common.add_options(common.gap_options)
@common.add_options([outputs.report_option, *outputs.table_options])
@common.add_options(
    [inputs.participation_option, inputs.known_option, inputs.weights_option, inputs.schema_option]
)
@outputs.json_option
def command(
    workload: str,
    weights: Path | None,
    known: str | None,
    schema: Path | None,
    p: float,
    noise: Any,
    report: Path | None,
    csv_path: Path | None,
    latex: Path | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Show how close to the best possible the error on WORKLOAD is: lower and upper bounds.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products and by + for unions, a .npy, .npz, .csv or .mtx file, or - for standard input. Each
    bound says which mechanisms it speaks of; those that do not apply say why.
    """
    queries = inputs.load_queries(workload, schema, note, weights=weights)
    options = common.design_arguments(arguments)
    public = inputs.load_known(known, schema, arguments["neighbours"])
    queries, guarantee = with_known(queries, guarantees.build_guarantee(**arguments), public)
    if guarantee is None:
        raise InvalidInputError("bounds are for a guarantee; add for example --epsilon 1")
    with progress() as callback:
        options["neighbours"] = guarantee.neighbours
        factorization = factorize(queries, p=p, callback=callback, **options)
        asked = {"p": p, "guarantee": guarantee, "noise": noise}
        reached = compare(queries, [factorization.strategy.renamed("least-norm")], **asked)
        usual = usual_rows(
            queries,
            ("tree", "identity"),
            **asked,
            neighbours=guarantee.neighbours,
            participation=options["participation"],
            announce=callback,
        )
    norm = factorization.certificate
    listed = all_bounds(
        queries,
        norm_lower=norm.lower,
        norm_upper=norm.upper,
        p=p,
        guarantee=guarantee,
        errors={f"{row.strategy}, {row.noise} noise": row.error for row in [*reached.rows, *usual]},
        norm_alone=options["participation"] is not None or bool(guarantee.known),
    )
    about = _about(queries, factorization, p, guarantee)
    records = [asdict(bound) | {"holds": bound.holds} for bound in listed]
    cells = _cells(listed)
    outputs.write_tables(csv_path, latex, records, HEADER, cells)
    if as_json:
        numbers = guarantee.to_json()
        print_json([record | {"guarantee_numbers": numbers} for record in records])
    else:
        facts(about)
        click.echo()
        table(HEADER, cells, texts=["bound", "mechanisms"])
        click.echo("\nnot applicable:")
        facts([(f"  {bound.name}", bound.reason) for bound in listed if not bound.holds])
    if report is not None:
        bounds_page(report, about, listed)
    if interrupted() or factorization.status is Status.INTERRUPTED:
        raise NotConvergedError("interrupted: what is shown holds, but more time may improve it")


def _about(
    queries: Workload, factorization: Design, p: float, guarantee: Guarantee
) -> list[tuple[str, str]]:
    """What the bounds are about."""
    norm = factorization.certificate
    m, n = queries.shape
    between = f"between {at_most(norm.lower, 9)} and {at_least(norm.upper, 9)}"
    return [
        ("workload", f"{queries.name}: {count_text(m)} queries on {count_text(n)} cells"),
        ("norm", f"gamma_({shortest(p)}) {between}"),
        ("guarantee", guarantee.describe(n)),
    ]


def _cells(listed: tuple[Bound, ...]) -> list[list[str]]:
    """The bounds that hold by the size that is shown, lower ones first."""
    shown = sorted((bound for bound in listed if bound.holds), key=lambda b: float(b.rounded))
    return [
        [bound.name, kind.value, bound.rounded, bound.mechanisms]
        for kind in Kind
        for bound in shown
        if bound.kind is kind
    ]
