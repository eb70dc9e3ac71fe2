"""pmldesign leakage STRATEGY --scale 1 --alpha 0.05 [--noise gaussian --epsilon 1]."""

from __future__ import annotations

from itertools import product
from typing import Any

import click

from pmldesign.calibration import gaussian_delta
from pmldesign.cli.options import json_option, load_strategy, numbers, strategy_help
from pmldesign.cli.show import facts, number, print_json, table
from pmldesign.errors import InvalidInputError
from pmldesign.leakage import (
    extreme_output_leakage,
    gaussian_envelope_delta,
    gaussian_slack_delta,
    laplace_leakage,
)
from pmldesign.neighbours import Neighbours, l1_sensitivity, l2_sensitivity


@click.command(name="leakage", epilog=strategy_help)
@click.argument("strategy")
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
    required=True,
    metavar="ALPHA[,ALPHA...]",
    help="Every cell has at least this probability; in (0, 1/cells].",
)
@click.option(
    "--noise",
    type=click.Choice(["laplace", "gaussian"]),
    default="laplace",
    show_default=True,
    help="The noise on every measurement.",
)
@click.option("--epsilon", type=float, help="Gaussian noise: the leakage whose delta is asked for.")
@json_option
def command(
    strategy: str, scales: str, alphas: str, noise: str, epsilon: float | None, as_json: bool
) -> None:
    """Show the pointwise maximal leakage of noise on what STRATEGY measures.

    Several scales or alphas give a row for each pair. Leakage is in nats; it is that about one
    record out of any number of independent ones.
    """
    matrix = load_strategy(strategy).matrix
    pairs = list(
        product(
            numbers("--scale", scales, example="0.5,1,2"),
            numbers("--alpha", alphas, example="0.01,0.05"),
        )
    )
    if noise == "gaussian":
        if epsilon is None:
            raise InvalidInputError(
                "Gaussian noise leaks any amount with some probability; give --epsilon to see it"
            )
        rows = [_gaussian(matrix, scale, alpha, epsilon) for scale, alpha in pairs]
    elif epsilon is not None:
        raise InvalidInputError("--epsilon is for --noise gaussian; leave it out")
    else:
        rows = [_laplace(matrix, scale, alpha) for scale, alpha in pairs]
    if as_json:
        print_json(rows[0] if len(rows) == 1 else rows)
        return
    names = list(rows[0])
    table(names, [[_cell(row[name]) for name in names] for row in rows])
    click.echo()
    facts(_EXPLAINED[noise])


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


def _laplace(matrix: Any, scale: float, alpha: float) -> dict[str, float | None]:
    bound = laplace_leakage(matrix, scale=scale, alpha=alpha)
    try:
        extreme: float | None = extreme_output_leakage(matrix, scale=scale, alpha=alpha)
    except InvalidInputError:
        if scale <= 0:
            raise
        extreme = None  # too many sign patterns to enumerate
    return {
        "scale": scale,
        "alpha": alpha,
        "corollary1": bound,
        "dp": l1_sensitivity(matrix, Neighbours.REPLACE) / scale,
        "extreme_output": extreme,
    }


def _gaussian(matrix: Any, scale: float, alpha: float, epsilon: float) -> dict[str, float | None]:
    arguments: Any = {"scale": scale, "epsilon": epsilon, "alpha": alpha}
    return {
        "scale": scale,
        "alpha": alpha,
        "epsilon": epsilon,
        "slack": gaussian_slack_delta(matrix, **arguments),
        "envelope": gaussian_envelope_delta(matrix, **arguments),
        "dp": gaussian_delta(l2_sensitivity(matrix, Neighbours.REPLACE), scale, epsilon),
    }


def _cell(value: float | None) -> str:
    return "too large" if value is None else number(value)
