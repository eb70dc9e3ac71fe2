"""pmldesign leakage STRATEGY --scale 1 --alpha 0.05 [--noise gaussian --epsilon 1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from pmldesign.arguments import as_number, non_negative, positive
from pmldesign.cli.documents.document import Document, Section, Table, progress
from pmldesign.cli.options.fields import (
    Outputs,
    argument,
    as_command,
    drawing,
    group,
    numbers,
    option,
)
from pmldesign.cli.options.promises import parse_alpha
from pmldesign.cli.options.questions import STRATEGY_HELP, QuestionOptions, WorkloadName
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.losses import alpha_curve, leakage
from pmldesign.privacy.guarantee_syntax import SAMPLE
from pmldesign.privacy.loss import SHARES
from pmldesign.privacy.outward import at_least, at_most, shortest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Alpha = float | tuple[float, ...]

DRAWN = 40
"""Steps of the picture of --alpha-curve."""
ASKED = ("scale", "alpha", "epsilon", "share")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    strategy: str = argument(WorkloadName())
    scale: str = option(
        "Scale of the noise: b of Laplace noise, or the standard deviation of Gaussian noise."
        " Separate several by commas.",
        required=True,
        metavar="NUMBER,...",
    )
    alpha: str = option(
        "Minimum probability of a cell: numbers in (0, 1/cells], separated by commas, a file with a"
        " number for each cell, or confidence limits from a public sample of the population,"
        " sample:FILE[,confidence=0.99].",
        required=True,
        metavar="NUMBER,...|FILE",
    )
    noise: str = option(
        "Kind of noise on every measurement.",
        default="laplace",
        type=click.Choice(["laplace", "gaussian"]),
    )
    epsilon: str | None = option(
        "Leakage in nats whose failure probability is reported, for Gaussian noise. Separate"
        " several"
        " by commas.",
        metavar="NUMBER,...",
    )
    alpha_curve: bool = option(
        "Show how the leakage grows as alpha falls to 0, where it is that of DP."
    )
    question: QuestionOptions = group(participation=None, known=None, weights=None)
    outputs: Outputs = group(plot=drawing("the curve of --alpha-curve"))


@as_command("leakage", Asked, epilog=STRATEGY_HELP)
def command(asked: Asked) -> None:
    """Compute the pointwise maximal leakage of noise on the measurements of STRATEGY, in nats.

    It is the leakage about one of any number of independent records. Several scales, alphas or
    epsilons give a row for each combination.

    Example: pmldesign leakage identity:16 --scale 1 --alpha 0.05
    """
    scales = numbers("--scale", asked.scale, example="0.5,1,2")
    for scale in scales:
        (positive if asked.noise == "laplace" else non_negative)("scale", scale)
    least = _alphas(asked.alpha)
    if asked.noise == "laplace" and asked.epsilon is not None:
        raise InvalidInputError("--epsilon is for --noise gaussian; leave it out")
    if asked.noise == "gaussian" and asked.epsilon is None:
        raise InvalidInputError(
            "Gaussian noise leaks any amount with some probability; give --epsilon to see it"
        )
    if asked.outputs.plot is not None and not asked.alpha_curve:
        raise InvalidInputError("--plot draws the curve of --alpha-curve; add it")
    measured = asked.question.strategy(asked.strategy)
    epsilons: list[Any] = [None]
    if asked.epsilon is not None:
        epsilons = [*numbers("--epsilon", asked.epsilon, example="0.5,1")]
    settings = [
        {"scale": scale, "alpha": alpha, "noise": asked.noise, "epsilon": epsilon}
        for scale, alpha, epsilon in product(scales, least, epsilons)
    ]
    if not asked.alpha_curve:
        rows = []
        with progress() as announce:
            for number, setting in enumerate(settings, 1):
                announce(f"{measured.name}: {number} of {len(settings)}")
                rows.append(leakage(measured, **setting))
        data = rows[0] if len(rows) == 1 else rows
        asked.outputs.deliver(_document(rows, data, asked.noise))
        return
    if len(settings) > 1:
        raise InvalidInputError("--alpha-curve is for one scale, one alpha and one epsilon")
    with progress() as announce:
        announce(f"{measured.name}: {len(SHARES)} shares of alpha")
        curve = alpha_curve(measured, **settings[0])
    rows = [dict(zip(curve, row, strict=True)) for row in zip(*curve.values(), strict=True)]
    plot = asked.outputs.plot
    data = settings[0] | curve | {"plot": None if plot is None else str(plot)}
    picture = partial(_drawn, measured, settings[0])
    asked.outputs.deliver(_document(rows, data, asked.noise, picture))


def _document(
    rows: Sequence[dict[str, Any]], data: Any, noise: str, picture: Any = None
) -> Document:
    """A row for each setting, and the meaning of the columns."""
    header = list(rows[0])
    table = Table(
        header,
        [[_cell(name, row[name]) for name in header] for row in rows],
        records=[_record(row) for row in rows],
    )
    facts = [fact for fact in (_SHARE, *_EXPLAINED[noise]) if fact[0] in header]
    return Document(data, [Section(tables=[table]), Section(facts=facts)], table, picture)


def _drawn(strategy: Any, setting: dict[str, Any]) -> Figure:
    """The curve of --alpha-curve, at more shares than are printed."""
    from pmldesign.plots.privacy import alpha_figure

    shares = [1 - step / DRAWN for step in range(DRAWN + 1)]
    drawn = alpha_curve(strategy, **setting, shares=shares)
    label = "leakage (nats)"
    if setting["epsilon"] is not None:
        label = f"delta at epsilon {shortest(setting['epsilon'])}"
    return alpha_figure(f"{strategy.name} if alpha is less", label, drawn)


_SHARE = ("share", "of alpha that holds: 1 is what is assumed, 0 is differential privacy")
_EXPLAINED = {
    "laplace": [
        (
            "leakage_upper",
            "upper bound, exact for one record up to 4096 cells; calibrate with it",
        ),
        ("dp", "epsilon of differential privacy, one record replaced"),
        ("leakage_lower", "leakage at extreme outputs, a lower bound: never calibrate with this"),
    ],
    "gaussian": [
        ("slack", "delta with P(E | record) <= e^epsilon P(E) + delta for every event E"),
        ("envelope", "bound on the probability that anything computed from it leaks more"),
        ("dp", "delta of (epsilon, delta)-differential privacy, one record replaced"),
    ],
}


def _alphas(text: str) -> list[Alpha]:
    """The values of --alpha: numbers, or one vector from a file or a sample."""
    if text.startswith(SAMPLE) or ("," not in text and as_number(text) is None):
        return [parse_alpha(text)]
    return [*numbers("--alpha", text, example="0.01,0.05")]


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
    return at_most(value) if name == "leakage_lower" else at_least(value)
