"""Options of pointwise maximal leakage: what is known of the probabilities of cells."""

from __future__ import annotations

from pathlib import Path

import click

from pmldesign.cli.options.common import Decorator, file_option, given
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.priors import least_probability

alpha_sample_options: list[Decorator] = [
    file_option(
        "--alpha-sample",
        help="PML: the counts of a public sample of the same population, one for each cell, from "
        "which lower confidence limits for the probabilities of the cells are taken, and how far "
        "all of these may be from the frequencies.",
    ),
    click.option(
        "--confidence",
        type=float,
        default=0.99,
        show_default=True,
        help="Probability that all limits from --alpha-sample hold together.",
    ),
]
alpha_file_option = file_option(
    "--alpha-file", help="PML: the least probability of each cell, one number a cell."
)
AT_ALPHA = "pmldesign.at_alpha"
"""Where a command keeps the number of --at-alpha, for its report."""


def _keep_alpha(context: click.Context, _: click.Parameter, value: float | None) -> None:
    context.meta[AT_ALPHA] = value


def require_alpha_fits(cells: int) -> None:
    """Refuse a number of --at-alpha that so many cells cannot have.

    Raises:
        InvalidInputError: it is above 1/cells, or not positive.
    """
    alpha = click.get_current_context().meta.get(AT_ALPHA)
    if alpha is not None:
        least_probability(alpha, cells)


at_alpha_option = click.option(
    "--at-alpha",
    type=float,
    metavar="A",
    expose_value=False,
    callback=_keep_alpha,
    help="Also report what leaks (PML) if every cell has at least this probability.",
)


def read_alpha(
    alpha_file: Path | None, alpha_sample: Path | None, confidence: float
) -> tuple[float, ...] | None:
    """The vector of --alpha-file, or the limits from --alpha-sample; None without either.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: both, or contents that are no such vector.
    """
    from pmldesign.files import read_prior
    from pmldesign.privacy.alpha.sample import sampled_alpha

    if alpha_sample is None:
        if given("confidence"):
            raise InvalidInputError("--confidence is for --alpha-sample; leave it out")
        if alpha_file is None:
            return None
        return tuple(read_prior(alpha_file, name="alpha").tolist())
    if alpha_file is not None:
        raise InvalidInputError("give one of --alpha, --alpha-file, --alpha-sample, not both")
    limits = sampled_alpha(read_prior(alpha_sample, name="the sample"), confidence)
    unseen = sum(limit == 0 for limit in limits)
    if unseen:
        from pmldesign.cli.terminal.show import note

        cells = f"{unseen} of {len(limits)} cells are"
        note(f"{cells} not in the sample; their limit is 0, and they hide nobody")
    return limits
