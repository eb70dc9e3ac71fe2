r"""The claims of a strategy file, from numbers that the arrays of any form of strategy determine.

Errors of noise on the rows of L are those of the definition, in ball arithmetic:

    err_p^p = scale^p sum_i E |(L z)_i|^p

Gaussian: E |(L z)_i|^p = s_i^p 2^(p/2) Gamma((p + 1)/2) / sqrt(pi), s_i^2 = (L L^T)_ii.
Laplace: a sum of independent Laplace variables of different scales l_j is a mixture of Laplace
variables with weights c_j = prod_{k != j} l_j^2 / (l_j^2 - l_k^2), so

    E |(L z)_i|^p = Gamma(p + 1) sum_j c_j l_j^p.

Scales that are equal, or nearly so, are moved apart by a relative 2^-APART, which moves the moment
by at most p 2^-APART. The weights are large and of both signs: precision grows with their number.
Discrete Laplace on whole measurements: R is u times whole numbers, and measurement j is off by
u eta_j, P(eta = k) proportional to q^|k|, q = e^(-u/scale). With the polylogarithm Li,

    E |eta|^p = 2 (1 - q)/(1 + q) sum_k k^p q^k = 2 (1 - q)/(1 + q) Li_{-p}(q),

and moments of even order of sums follow, one term after the other.
Cube: z = G u, G of Gamma(r + 1) and u uniform on [-1, 1]^r, so (r + p)!/r! E (l^T u)^p at even p,
the moments of sums of uniform numbers one term after the other.

p = inf is the largest standard deviation; p = 2 the sum of variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import arb, ctx

from pmldesign.verifier.balls import above, below, total
from pmldesign.verifier.distributions import Rows
from pmldesign.verifier.guarantees import dp_loss
from pmldesign.verifier.losses import pml_loss
from pmldesign.verifier.report import AGREEMENT, WEAKER, WEAKER_LOSS, Checks, Header, as_number

SLACK = 1e-9
"""Relative tolerance for a claim above the proved value: products are not formed exactly."""
APART = 40
"""Scales closer than 2^-APART are moved apart: the moment moves by less than the digits of a
claim."""
MOST_TERMS = 96
"""Of a row of L whose Laplace moment is computed: precision is 2 APART bits for each."""
NORMS = {"gaussian": "l2", "laplace": "l1", "cube": "linf"}
"""In which the sensitivity of a noise is."""
UNKNOWN = "the queries are not known; pass `workload` or `weights`"

RowsOf = Callable[[Mapping[str, Any]], Rows]
"""From the numbers of a guarantee."""
WHOLE = 1e-12
"""Relative error within which an entry of R counts as a multiple of the unit."""
LARGEST = 2**20
"""Entry of R in units up to which it is looked for."""
MOST_PRODUCTS = 2**20
"""Of two moments, in an error: some seconds."""


def profile(distances: Sequence[Any], counts: Sequence[int], copies: int) -> RowsOf:
    """How far all columns are from any one of them, at most.

    Args:
        distances: of the other columns.
        counts: how many different columns there are at each distance.
        copies: how many cells have the same column.
    """

    def rows(numbers: Header) -> Rows:
        alpha, every = numbers["alpha"], [1, *counts]
        least = arb(min(alpha) if isinstance(alpha, list) else alpha)
        masses = [least * copies * count for count in every]
        return Rows([[arb(0), *distances]], masses, sum(every))

    return rows


@dataclass(frozen=True, slots=True)
class Computed:
    """What the arrays of a strategy give, and how exactly.

    Attributes:
        spread: p to (sum_i s_i^p)^(1/p), s_i^2 the variance of query i per unit of noise, or to
            None if it is not computed; None if L is unknown.
        queries: their number.
        sensitivity: of "l1", "l2" and, if R is dense, "linf"; None if unknown.
        lower: lower bound on the norm; None if it is not computed.
        rest: the effect of L R - A on the upper bound; None if the queries are unknown.
        rows: in the norms "l1" and "l2" how far columns are apart, if known.
        reconstruction: L, shape (m, r); None if it is not materialized.
        weaker: by how much the lower bound that is claimed may be below this one.
        weaker_sensitivity: by how much a sensitivity may be above this one.
        weaker_loss: by how much a loss that is achieved may be above this one, up to the promise;
            under PML, where bounds on the loss serve, up to the promise anyhow.
        slack: relative tolerance by which bounds on the norm may exceed the proved values.
        slack_of_sensitivity: the same of sensitivities, and numbers that depend only on them.
        slack_of_loss: the same of losses.
        slack_of_errors: by how much errors may be below the values computed here.
        measurements: the number r of rows of R.
        drawn: from an epsilon and a scale to the delta, where steps draw their records at random.
        unit: u, if R consists of integer multiples of u and the noise is on their grid; else None.
    """

    spread: Callable[[float], Any] | None
    queries: int
    sensitivity: Callable[[str], Any]
    lower: Any = None
    rest: Any = 0
    rows: Mapping[str, RowsOf] = field(default_factory=dict)
    reconstruction: Any = None
    weaker: float = WEAKER
    weaker_sensitivity: float = WEAKER
    weaker_loss: float = WEAKER_LOSS
    slack: float = SLACK
    slack_of_sensitivity: float = SLACK
    slack_of_loss: float = 100 * SLACK  # a delta at a distance with rounding
    slack_of_errors: float = AGREEMENT
    measurements: int = 0
    drawn: Callable[[float, float], float | None] | None = None
    unit: float | None = None


def rounded(value: float) -> Any:
    """The ball around a result in double precision."""
    return arb(value, abs(value) * SLACK / 100)


def spread_of(*parts: tuple[Any, int]) -> Callable[[float], Any]:
    """`Computed.spread` from variances in double precision, and how often each of them comes."""

    def spread(p: float) -> Any:
        if math.isinf(p):
            return rounded(math.sqrt(max(float(values.max()) for values, _ in parts)))
        powers = [times * float((np.maximum(v, 0.0) ** (p / 2)).sum()) for v, times in parts]
        return rounded(math.fsum(powers) ** (1 / p))

    return spread


def check_computed(header: Header, computed: Computed, checks: Checks) -> None:
    """All claims of the header that can be compared."""
    if "upper" in header:
        _check_norm(header, computed, checks)
    if "noise" not in header:
        return
    scale = as_number(header["scale"])
    if scale is None or scale < 0 or header["noise"] not in NORMS:
        checks.state("noise", False, f"{header['noise']!r} of scale {header['scale']!r}")
        return
    _check_privacy(header, computed, scale, checks)
    _check_errors(header, computed, scale, checks)


def _check_norm(header: Header, computed: Computed, checks: Checks) -> None:
    if computed.spread is None or computed.rest is None:
        for name in ("lower", "upper"):
            checks.unchecked(name, UNKNOWN, header[name])
        return
    longest = computed.sensitivity("l2")
    if longest is None:
        checks.unchecked("upper", "the sensitivity is not computed", header["upper"])
    else:
        value = computed.spread(float(header["p"])) * longest + computed.rest
        checks.at_most("upper", header["upper"], above(value) * (1 - computed.slack))
    if computed.lower is None:
        checks.unchecked("lower", "the file has no dual weights of this form", header["lower"])
    else:
        proved = below(computed.lower) * (1 + computed.slack)
        checks.at_least("lower", header["lower"], proved, weaker=computed.weaker)


def _check_privacy(header: Header, computed: Computed, scale: float, checks: Checks) -> None:
    """Whether noise of this scale meets the guarantee, and the loss that it achieves."""
    noise, numbers = header["noise"], header["guarantee_numbers"]
    norm, pml = NORMS[noise], numbers["kind"] == "pml"
    if noise == "cube" and numbers["kind"] != "dp":
        checks.state("guarantee", False, "cube noise is for epsilon-DP")
        return
    longest = computed.sensitivity(norm) if "sensitivity" in header or not pml else None
    if "sensitivity" in header and longest is None:
        checks.unchecked("sensitivity", "of a strategy of this form", header["sensitivity"])
    elif "sensitivity" in header:
        proved = above(longest) * (1 - computed.slack_of_sensitivity)
        claimed, weaker = header["sensitivity"], computed.weaker_sensitivity
        checks.at_most("sensitivity", claimed, proved, weaker=weaker)
    if scale == 0:
        checks.unchecked("guarantee", "noise of scale 0 meets a vacuous guarantee only")
        return
    loss = None
    if pml and norm in computed.rows:
        loss = pml_loss(numbers, noise, computed.rows[norm](numbers), arb(scale))
    elif computed.drawn is not None and noise == "gaussian" and numbers.get("delta"):
        delta = computed.drawn(numbers["epsilon"], scale)
        loss = None if delta is None else (arb(delta), numbers["delta"])
    elif not pml and longest is not None:
        loss = dp_loss(numbers, noise, longest / arb(scale))
    if loss is None:
        checks.unchecked("guarantee", f"{numbers['kind']} of {noise} noise, for such a strategy")
        return
    value, target = above(loss[0]), loss[1]
    slack = computed.slack_of_loss if pml else computed.slack_of_sensitivity
    checks.state("guarantee", value <= target * (1 + slack), "the loss at the scale", value)
    if "achieved" in header:
        proved = value * (1 - computed.slack_of_loss)
        promised = target * (1 + slack) / proved - 1 if proved else 0.0
        above_loss = pml or computed.drawn is not None
        moved = computed.weaker_loss * max(1.0, -math.log(target))  # of a tiny delta by more
        weaker = promised if above_loss else min(moved, promised)
        checks.at_most("achieved", header["achieved"], proved, weaker=weaker)


def _check_errors(header: Header, computed: Computed, scale: float, checks: Checks) -> None:
    spread, noise, unit = computed.spread, header["noise"], computed.unit
    if "own_grid" in header:
        kind = header["guarantee_numbers"]["kind"], header["neighbours"], noise
        right = unit is not None and kind == ("dp", "add-remove", "laplace") and scale > 0
        if not checks.state("own_grid", right, "Laplace noise on measurements that are whole"):
            return
        scale *= float(header["own_grid"])  # of several rows of a person: their ratio
    if spread is None:
        checks.unchecked("error", UNKNOWN)
        return
    r = computed.measurements
    variances = {"gaussian": arb(1), "laplace": arb(2), "cube": arb((r + 1) * (r + 2)) / 3}
    factor = variances[noise].sqrt() * scale if unit is None else discrete_deviation(unit, scale)

    def error(p: float) -> Any | None:
        if unit is not None and p != 2 and not math.isinf(p):
            return discrete_error(computed.reconstruction, unit, scale, p)
        if noise != "gaussian" and p != 2 and not math.isinf(p):
            error_of = laplace_error if noise == "laplace" else cube_error
            return error_of(computed.reconstruction, arb(scale), p)
        size = spread(p)
        return (
            None if size is None else gaussian_error(size, factor, p if noise == "gaussian" else 2)
        )

    mean = factor * spread(2) / arb(computed.queries).sqrt()
    values = {"error": error(float(header["p"])), "rmse": mean, "max_std": error(math.inf)}
    for name, value in values.items():
        if name in header and value is None:
            checks.unchecked(name, "of this noise at this p, or of so many queries", header[name])
        elif name in header:
            ends = below(value), above(value)
            checks.equal(name, header[name], *ends, less=computed.slack_of_errors, more=WEAKER)


def gaussian_error(spread: Any, scale: Any, p: float) -> Any:
    """Error of Gaussian noise from (sum_i s_i^p)^(1/p)."""
    if math.isinf(p):
        return scale * spread
    power = arb(p)
    moment = (arb(2) ** (power / 2) * ((power + 1) / 2).gamma() / arb.pi().sqrt()) ** (1 / power)
    return scale * moment * spread


def cube_error(rows: Any, scale: Any, p: float) -> Any | None:
    """Error of cube noise from L at an even p; None without L, at other p, or at too large ones."""
    if rows is None or p % 2 or np.count_nonzero(rows) * (p / 2) ** 2 > MOST_PRODUCTS:
        return None
    r, order = rows.shape[1], int(p)
    even = [1 / arb(2 * k + 1) for k in range(order // 2 + 1)]
    moments = [_of_sum([arb(x) for x in row if x != 0], even) for row in rows.tolist()]
    radial = arb(r + order + 1).gamma() / arb(r + 1).gamma()
    return scale * (radial * total(moments)) ** (1 / arb(p))


def laplace_error(rows: Any, scale: Any, p: float) -> Any | None:
    """Error of Laplace noise from L at 2 < p < inf; None without L, or if it takes too long."""
    if rows is None or max((row != 0).sum() for row in rows) > MOST_TERMS:
        return None
    moments = [laplace_moment([x for x in row if x != 0], p) for row in abs(rows).tolist()]
    return scale * (arb(p + 1).gamma() * total(moments)) ** (1 / arb(p))


def laplace_moment(scales: Sequence[float], p: float) -> Any:
    """sum_j c_j l_j^p for the scales of a row."""
    bits = ctx.prec
    ctx.prec = 256 + 2 * APART * len(scales)
    try:
        apart = arb(2) ** -APART
        values = [
            arb(size) * (1 + j * apart / len(scales)) for j, size in enumerate(sorted(scales))
        ]
        powers = [value**2 for value in values]
        result = arb(0)
        for j, square in enumerate(powers):
            weight = arb(1)
            for k, other in enumerate(powers):
                if k != j:
                    weight *= square / (square - other)
            result += weight * values[j] ** arb(p)
        slack = arb(0, arb(p) * apart * 2)
        return result * (1 + slack)
    finally:
        ctx.prec = bits


def own_unit(R: Any) -> float | None:
    """u, the smallest entry, if all others are multiples of it; else None."""
    sizes = np.abs(R)
    if not sizes.any():
        return None
    unit = float(sizes[sizes > 0].min())
    off = np.abs(sizes - np.rint(sizes / unit) * unit)
    return None if sizes.max() > LARGEST * unit or (off > WHOLE * sizes).any() else unit


def discrete_deviation(unit: float, scale: Any) -> Any:
    """Standard deviation of the noise on a measurement."""
    q = (-arb(unit) / scale).exp()
    return arb(unit) * (2 * q).sqrt() / (1 - q)


def discrete_error(rows: Any, unit: float, scale: Any, p: float) -> Any | None:
    """(sum_i E |e_i|^p)^(1/p) from L, 2 < p < inf.

    Returns:
        None without L, or for sums of several measurements at p that is not even, or too large.
    """
    if rows is None:
        return None
    terms = [[arb(x) for x in row if x != 0] for row in np.abs(rows[rows.any(axis=1)]).tolist()]
    products = sum(len(row) for row in terms if len(row) > 1) * (p / 2) ** 2
    if products and (p % 2 or products > MOST_PRODUCTS):
        return None
    q = (-arb(unit) / scale).exp()

    def single(order: float) -> Any:
        return arb(1) if order == 0 else 2 * (1 - q) / (1 + q) * q.polylog(arb(-order))

    even = [single(k) for k in range(0, int(p) + 1, 2)] if products else []
    one = single(p)
    moments = [row[0] ** arb(p) * one if len(row) == 1 else _of_sum(row, even) for row in terms]
    return arb(unit) * total(moments) ** (1 / arb(p))


def _of_sum(row: list[Any], even: list[Any]) -> Any:
    """The last of the even moments of sum_j l_j eta_j, eta_j of one symmetric law."""
    moments = [arb(1)] + [arb(0)] * (len(even) - 1)
    for weight in row:
        powers = [weight ** (2 * k) * moment for k, moment in enumerate(even)]
        moments = [
            total(math.comb(2 * n, 2 * k) * moments[n - k] * powers[k] for k in range(n + 1))
            for n in range(len(even))
        ]
    return moments[-1]
