"""The options of a guarantee, and the guarantee that they ask for."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options.alpha import alpha_file_option, alpha_sample_options, read_alpha
from pmldesign.cli.options.common import Decorator, given, noise_option, numbers
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import (
    PML,
    ZCDP,
    ApproxDP,
    ApproxPML,
    EnvelopePML,
    GaussianDP,
    Guarantee,
    PureDP,
    RenyiDP,
)

failure_option = click.option(
    "--failure",
    type=click.Choice(["slack", "envelope"]),
    default="envelope",
    show_default=True,
    help="PML with --delta: an additive slack on every event, or the probability of a larger "
    "leakage after any post-processing.",
)
neighbours_option = click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace"]),
    help="DP: how neighbours differ; add-remove by default. PML is always replace.",
)


def _guarantee_options(*, several: bool) -> list[Decorator]:
    """The options of a guarantee; with `several`, numbers are lists for `build_guarantees`."""
    kind: Any = str if several else float
    metavar, more = ("NUMBER,...", " Several: separated by commas.") if several else (None, "")

    def number(name: str, text: str) -> Decorator:
        return click.option(name, type=kind, metavar=metavar, help=text + more)

    return [
        number("--epsilon", "Privacy parameter of DP or PML."),
        number("--delta", "Slack or failure probability."),
        number("--rho", "Of zCDP, in place of epsilon."),
        number("--mu", "Of Gaussian DP, in place of epsilon."),
        click.option(
            "--renyi", metavar="ORDER,EPSILON", help="Renyi DP of one order, in place of epsilon."
        ),
        number("--alpha", "PML: every cell has at least this probability; in (0, 1/cells]."),
        alpha_file_option,
        *alpha_sample_options,
        failure_option,
        neighbours_option,
        noise_option("of smaller error"),
    ]


LISTS = {
    "epsilon": "0.5,1",
    "delta": "1e-6,1e-9",
    "alpha": "0.01,0.05",
    "rho": "0.1,0.5",
    "mu": "0.5,1",
}
"""Options that may be lists, and an example of each."""
guarantee_options = _guarantee_options(several=False)
guarantee_list_options = _guarantee_options(several=True)


def build_guarantee(
    *,
    rho: float | None = None,
    mu: float | None = None,
    renyi: str | None = None,
    neighbours: str | None,
    **others: Any,
) -> Guarantee | None:
    """The guarantee that the options ask for; None if they ask for none.

    Raises:
        InvalidInputError: options that do not go together, or out of range.
    """
    currency = _currency(rho, mu, renyi, neighbours or "add-remove")
    if currency is None:
        return _with_epsilon(neighbours=neighbours, **others)
    names = ("epsilon", "delta", "alpha", "alpha_file", "alpha_sample")
    named = [name.replace("_", "-") for name in names if others[name] is not None]
    if named:
        raise InvalidInputError(
            f"--rho, --mu and --renyi are guarantees of their own; leave --{named[0]} out"
        )
    return currency


def _with_epsilon(
    *,
    epsilon: float | None,
    delta: float | None,
    alpha: float | None,
    alpha_file: Path | None,
    alpha_sample: Path | None,
    confidence: float,
    failure: str,
    neighbours: str | None,
) -> Guarantee | None:
    """The guarantee of an epsilon: differential privacy, or PML."""
    least: float | tuple[float, ...] | None = alpha
    vector = read_alpha(alpha_file, alpha_sample, confidence)
    if vector is not None:
        if alpha is not None:
            raise InvalidInputError("give one of --alpha, --alpha-file, --alpha-sample, not both")
        least = vector
    if given("failure") and (least is None or delta is None):
        raise InvalidInputError(
            "--failure is for PML with a delta; give --alpha and --delta too, or leave it out"
        )
    if epsilon is None:
        if delta is not None or least is not None:
            raise InvalidInputError(
                "--delta and --alpha need --epsilon; add for example --epsilon 1"
            )
        return None
    if least is not None and neighbours == "add-remove":
        raise InvalidInputError(
            "PML (--alpha) speaks of a public number of records: its neighbours are always"
            " 'replace'; leave --neighbours out"
        )
    if least is not None:
        loose = EnvelopePML if failure == "envelope" else ApproxPML
        return PML(epsilon, least) if delta is None else loose(epsilon, delta, least)
    relation: Any = neighbours or "add-remove"
    return PureDP(epsilon, relation) if delta is None else ApproxDP(epsilon, delta, relation)


def _currency(
    rho: float | None, mu: float | None, renyi: str | None, neighbours: Any
) -> Guarantee | None:
    """The guarantee that --rho, --mu or --renyi asks for; None if none of them is given."""
    given_options = [value for value in (rho, mu, renyi) if value is not None]
    if len(given_options) > 1:
        raise InvalidInputError("give only one of --rho, --mu and --renyi")
    if rho is not None:
        return ZCDP(rho, neighbours)
    if mu is not None:
        return GaussianDP(mu, neighbours)
    if renyi is not None:
        values = numbers("--renyi", renyi, example="8,0.5")
        if len(values) != 2:
            raise InvalidInputError(f"--renyi is an order and an epsilon: 8,0.5; got {renyi!r}")
        return RenyiDP(values[0], values[1], neighbours)
    return None


def build_guarantees(**arguments: Any) -> list[Guarantee | None]:
    """The guarantees of every combination of the lists; [None] if the options ask for none.

    Raises:
        InvalidInputError: as `build_guarantee`, or a list that holds something else than numbers.
    """
    lists = [
        [None] if (text := arguments[name]) is None else numbers(f"--{name}", text, example=example)
        for name, example in LISTS.items()
    ]
    return [
        build_guarantee(**arguments | dict(zip(LISTS, values, strict=True)))
        for values in product(*lists)
    ]
