"""Claims of strategies with structure, from what the structure tells about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flint import arb

from pmldesign.verify.arithmetic.intervals import above, below
from pmldesign.verify.distributions import Rows
from pmldesign.verify.losses import dp_loss, pml_loss
from pmldesign.verify.moments import gaussian_error_of_spread
from pmldesign.verify.report import WEAKER, WEAKER_LOSS, Checks, as_number

SLACK = 1e-9
"""By how much a claim may exceed what is proved, relatively: products are not formed exactly."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How far all columns are from any one of them, at most.

    Attributes:
        distances: of the other columns.
        counts: how many different columns there are at each distance.
        copies: how many cells have the same column.
    """

    distances: Sequence[Any]
    counts: Sequence[int]
    copies: int

    def rows(self, alpha: Any) -> Rows:
        """Of any column, for the least probability of a cell."""
        counts = [1, *self.counts]
        masses = [alpha * self.copies * count for count in counts]
        return Rows([[arb(0), *self.distances]], masses, sum(counts))


@dataclass(frozen=True, slots=True)
class Computed:
    """What the arrays of a strategy give.

    Attributes:
        spread: p to (sum_i s_i^p)^(1/p), s_i^2 the variance of query i per unit of noise; None
            where it is not computed.
        queries: their number.
        sensitivities: "l1" and "l2", where they are known.
        lower: lower bound on the norm; None where it is not computed.
        rest: what L R - A adds to the upper bound.
        profiles: of distances in the l1 and l2 norms, where they are known.
        weaker: by how much the lower bound that is claimed may be below this one.
    """

    spread: Callable[[float], Any]
    queries: int
    sensitivities: Mapping[str, Any] = field(default_factory=dict)
    lower: Any = None
    rest: Any = 0
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    weaker: float = WEAKER


def rounded(value: float) -> Any:
    """The ball around what double precision gives."""
    return arb(value, abs(value) * SLACK / 100)


def check_computed(header: Mapping[str, Any], computed: Computed, checks: Checks) -> None:
    """All claims of the header that can be compared."""
    p, known = float(header["p"]), computed.sensitivities
    if "upper" in header:
        if "l2" in known:
            value = computed.spread(p) * known["l2"] + computed.rest
            checks.at_most("upper", header["upper"], above(value) * (1 - SLACK))
        else:
            checks.unchecked("upper", "the sensitivity is not computed", header["upper"])
        if computed.lower is None:
            checks.unchecked("lower", "dual weights of this form", header["lower"])
        else:
            proved = below(computed.lower) * (1 + SLACK)
            checks.at_least("lower", header["lower"], proved, weaker=computed.weaker)
    if "noise" not in header:
        return
    scale = as_number(header["scale"])
    if scale is None or scale <= 0 or header["noise"] not in ("gaussian", "laplace"):
        checks.state("noise", False, f"{header['noise']!r} of scale {header['scale']!r}")
        return
    _check_privacy(header, computed, scale, checks)
    _check_errors(header, computed, scale, checks)


def _check_privacy(
    header: Mapping[str, Any], computed: Computed, scale: float, checks: Checks
) -> None:
    norm = "l1" if header["noise"] == "laplace" else "l2"
    numbers, known = header["guarantee_numbers"], computed.sensitivities
    loss = None
    if norm in known:
        if "sensitivity" in header:
            checks.at_most("sensitivity", header["sensitivity"], above(known[norm]) * (1 - SLACK))
        if numbers["kind"] != "pml":
            loss = dp_loss(numbers, header["noise"], known[norm] / arb(scale))
        elif norm in computed.profiles:
            alpha = numbers["alpha"]
            least = arb(min(alpha) if isinstance(alpha, list) else alpha)
            rows = computed.profiles[norm].rows(least)
            loss = pml_loss(numbers, header["noise"], rows, arb(scale))
    elif "sensitivity" in header:
        checks.unchecked("sensitivity", "of a strategy of this form", header["sensitivity"])
    if loss is None:
        checks.unchecked("guarantee", "of this kind, for a strategy of this form")
        return
    value, target = above(loss[0]), loss[1]
    slack = (
        100 * SLACK if numbers["kind"] == "pml" else SLACK
    )  # a delta at a distance with rounding
    checks.state("guarantee", value <= target * (1 + slack), "the loss at the scale", value)
    if "achieved" in header:
        checks.at_most(
            "achieved", header["achieved"], value * (1 - 100 * SLACK), weaker=WEAKER_LOSS
        )


def _check_errors(
    header: Mapping[str, Any], computed: Computed, scale: float, checks: Checks
) -> None:
    p = float(header["p"])
    laplace = header["noise"] == "laplace"

    factor = arb(2).sqrt() * scale if laplace else arb(scale)

    def error(exponent: float) -> Any | None:
        spread = computed.spread(exponent)
        if spread is None or (laplace and exponent != 2 and not math.isinf(exponent)):
            return None
        return factor * spread if laplace else gaussian_error_of_spread(spread, factor, exponent)

    mean = factor * computed.spread(2) / arb(computed.queries).sqrt()
    values = {"error": error(p), "rmse": mean, "max_std": error(math.inf)}
    for name, value in values.items():
        if name in header and value is None:
            checks.unchecked(name, "of this noise at this p", header[name])
        elif name in header:
            checks.equal(name, header[name], below(value), above(value))
