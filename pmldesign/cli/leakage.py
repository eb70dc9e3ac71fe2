"""pmldesign leakage STRATEGY --scale 1 --alpha 0.05 [--noise gaussian --epsilon 1]."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import alpha, common, inputs, outputs
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import facts, print_json, table
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.losses import alpha_curve as losses_over_alpha
from pmldesign.mechanisms.losses import leakage
from pmldesign.privacy.digits import at_least, at_most, shortest

Alpha = float | tuple[float, ...]

DRAWN = 40
"""Steps of the picture of --alpha-curve."""
ASKED = ("scale", "alpha", "epsilon", "share")


@click.command(name="leakage", epilog=inputs.strategy_help)
@click.argument("strategy", type=WorkloadName())
@click.option(
    "--scale",
    "scales",
    required=True,
    metavar="SCALE[,SCALE...]",
    help="b of Laplace noise, or the standard deviation of Gaussian noise.",
)
@click.option(
    "--alpha",
    "alphas",
    metavar="ALPHA[,ALPHA...]",
    help="Every cell has at least this probability; in (0, 1/cells].",
)
@common.file_option("--alpha-file", help="The least probability of each cell, one number a cell.")
@common.add_options(alpha.alpha_sample_options)
@click.option(
    "--noise",
    type=click.Choice(["laplace", "gaussian"]),
    default="laplace",
    show_default=True,
    help="The noise on every measurement.",
)
@click.option(
    "--epsilon",
    "epsilons",
    metavar="EPSILON[,EPSILON...]",
    help="Gaussian noise: the leakage whose delta is asked for.",
)
@click.option(
    "--alpha-curve",
    is_flag=True,
    help="What leaks as alpha falls below what is assumed, down to differential privacy.",
)
@outputs.plot_option("the curve of --alpha-curve")
@common.add_options([*outputs.table_options, inputs.schema_option])
@outputs.json_option
def command(
    strategy: str,
    schema: Path | None,
    scales: str,
    alphas: str | None,
    alpha_file: Path | None,
    alpha_sample: Path | None,
    confidence: float,
    noise: str,
    epsilons: str | None,
    alpha_curve: bool,
    plot: Path | None,
    csv_path: Path | None,
    latex: Path | None,
    as_json: bool,
) -> None:
    """Show the pointwise maximal leakage of noise on what STRATEGY measures.

    Several scales, alphas or epsilons give a row for each combination. Leakage is in nats; it is
    that about one record out of any number of independent ones.
    """
    least = _alphas(alphas, alpha.read_alpha(alpha_file, alpha_sample, confidence))
    at = common.numbers("--scale", scales, example="0.5,1,2")
    if noise == "laplace" and epsilons is not None:
        raise InvalidInputError("--epsilon is for --noise gaussian; leave it out")
    if noise == "gaussian" and epsilons is None:
        raise InvalidInputError(
            "Gaussian noise leaks any amount with some probability; give --epsilon to see it"
        )
    if plot is not None and not alpha_curve:
        raise InvalidInputError("--plot draws the curve of --alpha-curve; add it")
    measured = inputs.load_strategy(strategy, schema)
    of: list[Any] = (
        [None] if epsilons is None else common.numbers("--epsilon", epsilons, example="0.5,1")
    )
    if alpha_curve:
        if len(at) * len(least) * len(of) > 1:
            raise InvalidInputError("--alpha-curve is for one scale, one alpha and one epsilon")
        arguments = {"scale": at[0], "alpha": least[0], "noise": noise, "epsilon": of[0]}
        curve = losses_over_alpha(measured, **arguments)
        if plot is not None:
            _draw(measured, arguments, plot)
        document: Any = arguments | curve | {"plot": None if plot is None else str(plot)}
        rows = [dict(zip(curve, row, strict=True)) for row in zip(*curve.values(), strict=True)]
    else:
        rows = [
            leakage(measured, scale=scale, alpha=alpha, noise=noise, epsilon=epsilon)
            for scale, alpha, epsilon in product(at, least, of)
        ]
        document = rows[0] if len(rows) == 1 else rows
    header = list(rows[0])
    cells = [[_cell(name, row[name]) for name in header] for row in rows]
    outputs.write_tables(csv_path, latex, [_record(row) for row in rows], header, cells)
    if as_json:
        print_json(document)
        return
    table(header, cells)
    click.echo()
    facts([fact for fact in (_SHARE, *_EXPLAINED[noise]) if fact[0] in header])


def _draw(strategy: Any, arguments: dict[str, Any], path: Path) -> None:
    """The curve of --alpha-curve, at more shares than are printed."""
    from pmldesign.plots import plot_alpha_curve

    shares = [1 - step / DRAWN for step in range(DRAWN + 1)]
    drawn = losses_over_alpha(strategy, **arguments, shares=shares)
    label = "leakage (nats)"
    if arguments["epsilon"] is not None:
        label = f"delta at epsilon {shortest(arguments['epsilon'])}"
    plot_alpha_curve(f"{strategy.name} if alpha is less", label, drawn, path)


_SHARE = ("share", "of alpha that holds: 1 is what is assumed, 0 is differential privacy")
_EXPLAINED = {
    "laplace": [
        ("corollary1", "upper bound for any number of records, exact for one: calibrate with this"),
        ("dp", "epsilon of differential privacy, one record replaced"),
        ("extreme_output", "leakage at extreme outputs, a lower bound: never calibrate with this"),
    ],
    "gaussian": [
        ("slack", "delta with P(E | record) <= e^epsilon P(E) + delta for every event E"),
        ("envelope", "bound on the probability that anything computed from it leaks more"),
        ("dp", "delta of (epsilon, delta)-differential privacy, one record replaced"),
    ],
}


def _alphas(alphas: str | None, vector: tuple[float, ...] | None) -> list[Alpha]:
    """The values of --alpha, or the vector of a file."""
    if alphas is not None and vector is None:
        return [*common.numbers("--alpha", alphas, example="0.01,0.05")]
    if vector is not None and alphas is None:
        return [vector]
    raise InvalidInputError(
        "give one of --alpha, such as 0.01,0.05, --alpha-file and --alpha-sample"
    )


def _record(row: dict[str, Any]) -> dict[str, Any]:
    """A row for a file: an alpha for each cell as the text that is shown."""
    return {k: _cell(k, value) if isinstance(value, tuple) else value for k, value in row.items()}


def _cell(name: str, value: Any) -> str:
    """What was asked for with all its digits, upper bounds rounded up, the lower one down."""
    if value is None:
        return "too large"
    if isinstance(value, tuple):
        return f"{shortest(min(value))}..{shortest(max(value))}"
    if name in ASKED:
        return shortest(value)
    return at_most(value) if name == "extreme_output" else at_least(value)
