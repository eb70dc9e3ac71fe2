"""The options of `pmldesign target`: how accurate, and what is to be least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import alpha, common, guarantees
from pmldesign.designs.targets.accuracy import Targets, as_targets, named_targets
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_prior
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.workloads import Workload

ACCURACIES: list[Any] = [
    click.option("--max-std", type=float, metavar="C", help="Largest standard deviation."),
    click.option(
        "--half-width", type=float, metavar="H", help="Or half-width of intervals at --level."
    ),
    click.option(
        "--level",
        type=float,
        default=0.95,
        show_default=True,
        help="Of these intervals; where it is given, --targets and --table-std are half-widths.",
    ),
    common.file_option(
        "--targets", help="Or one number for each query: one number a line, .csv or .npy."
    ),
    click.option(
        "--table-std",
        multiple=True,
        metavar="NAME=C,...",
        help="Or for parts of WORKLOAD by name or number from 1, or queries by their labels; "
        "--max-std for the others.",
    ),
]
PROMISES: list[Any] = [
    click.option(
        "--currency",
        type=click.Choice(["epsilon", "rho", "mu"]),
        default="epsilon",
        show_default=True,
        help="What is to be least: of DP or PML, zCDP, Gaussian DP.",
    ),
    click.option("--delta", type=float, help="Slack or failure probability, with epsilon."),
    click.option("--alpha", type=float, help="PML: every cell has at least this probability."),
    alpha.alpha_file_option,
    *alpha.alpha_sample_options,
    guarantees.failure_option,
    guarantees.neighbours_option,
    common.noise_option("that needs less"),
]


def promise(*, currency: str, delta: float | None, **others: Any) -> Guarantee:
    """The guarantee whose budget is looked for; the one that it has here does not count."""
    if currency != "epsilon" and delta is not None:
        raise InvalidInputError(f"--delta is for --currency epsilon, not {currency}; leave it out")
    budgets: dict[str, Any] = {"epsilon": None, "rho": None, "mu": None, currency: 1e-6}
    guarantee = guarantees.build_guarantee(delta=delta, renyi=None, **budgets, **others)
    assert guarantee is not None
    return guarantee


def accuracy(
    queries: Workload,
    text: str,
    max_std: float | None,
    half_width: float | None,
    targets: Path | None,
    table_std: Sequence[str],
    level: float,
) -> Targets:
    """What the options ask for: standard deviations, or half-widths.

    Raises:
        InvalidInputError: none, or several that do not go together.
    """
    number = max_std if half_width is None else half_width
    if max_std is not None and half_width is not None:
        raise InvalidInputError("give either --max-std or --half-width, not both")
    if max_std is not None and common.given("level"):
        raise InvalidInputError("--level is of half-widths; take --half-width, not --max-std")
    of = level if half_width is not None or common.given("level") else None
    if targets is not None:
        if number is not None or table_std:
            raise InvalidInputError("--targets has a number for each query; leave the others out")
        return as_targets(Targets(read_prior(targets, name="targets"), level=of), queries)
    if table_std:
        named = named_targets(queries, _named(",".join(table_std), text), number)
        return as_targets(replace(named, level=of), queries)
    if number is None:
        raise InvalidInputError(
            "say how accurate the answers are to be: --max-std 5, --half-width 10, --targets FILE"
            " or --table-std"
        )
    return as_targets(Targets(number, level=of), queries)


def _named(text: str, workload: str) -> Mapping[str, float]:
    """Numbers by name: "A=20,B=5"; a name may have commas and signs of equality itself."""
    named: dict[str, float] = {}
    rest = ""
    for part in text.split(","):
        piece = f"{rest},{part}" if rest else part
        name, equals, number = piece.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            rest = piece
            continue
        if rest == "" and equals and name.strip() and _begins_part(piece, text, workload):
            rest = piece
            continue
        named[name.strip()] = value
        rest = ""
    if rest or "" in named or not named:
        raise InvalidInputError(
            f"--table-std is written as NAME=20,NAME=5, got {text[:60]!r}; a part may be called by"
            " its number from 1"
        )
    return named


def _begins_part(piece: str, text: str, workload: str) -> bool:
    """Whether what looks like NAME=C is the beginning of a longer name of a part."""
    parts = [part.strip() for part in workload.split("+")]
    longer = [part for part in parts if part.startswith(piece.strip()) and f"{part}=" in text]
    return bool(longer) and piece.rpartition("=")[0].strip() not in parts
