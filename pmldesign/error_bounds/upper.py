r"""Upper bounds on the least err_p: what mechanisms reach.

With sigma(1) the standard deviation of the analytic Gaussian mechanism for a step of length 1,

    optimal Gaussian    c_p sigma(1) gamma_(p)(A)
    on the answers      c_p sigma(1) m^(1/p) max over steps v of norm(v)_2
    Theorem D.1         3 gamma_(p)(A) sqrt(log(1/delta) min(p, log 2m) / 2) / eps
    Theorem 2.12        3 n^(1/p) log(n) sqrt(log(1/delta) min(p, log n) / 2) / eps, prefix sums

The proofs of the last two replace c_p^2 by min(p, log 2m), which is wrong for large p:
(E abs(z_i)^p)^(1/p) = c_p is about sqrt(p/e) however few queries there are. They are reported where
c_p^2 <= min(p, log 2m), or the analogue for prefix sums, holds.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Theorems D.1, 2.12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pmldesign.arguments import non_negative
from pmldesign.error_bounds.bound import Bound, BoundProblem, bound_above
from pmldesign.privacy.calibration import (
    analytic_gaussian_scale,
    classical_gaussian_scale,
    gaussian_delta,
    gaussian_scale,
)
from pmldesign.privacy.guarantees import ApproxDP, CurrencyGuarantee
from pmldesign.privacy.noise import gaussian_moment_root
from pmldesign.workloads.weighting import near_one

GAUSSIAN_ONLY = "neither PML nor epsilon-DP: their least scale of Gaussian noise is not known here"


def upper_bounds(problem: BoundProblem, errors: Mapping[str, float]) -> list[Bound]:
    """The bounds, whether or not they hold, and one for each mechanism of `errors`."""
    reached = [
        bound_above(
            name,
            non_negative(f"the error of {name}", error),
            mechanisms=name,
            reason="exact error, given by the caller",
            source="the mechanism itself",
        )
        for name, error in errors.items()
    ]
    return [*reached, *_gaussian(problem), _theorem_d1(problem), _theorem_2_12(problem)]


def _gaussian(problem: BoundProblem) -> list[Bound]:
    """Exact error of Gaussian noise on the optimal strategy and on the answers."""
    guarantee, reason = problem.guarantee, GAUSSIAN_ONLY
    optimal = plain = sigma = None
    if isinstance(guarantee, CurrencyGuarantee):
        sigma = gaussian_scale(1.0, guarantee.gaussian_square)
    elif isinstance(guarantee, ApproxDP):
        sigma = analytic_gaussian_scale(1, epsilon=guarantee.epsilon, delta=guarantee.delta)
    if sigma is not None:
        unit = gaussian_moment_root(problem.p) * sigma
        optimal = unit * problem.norm_upper
        plain = unit * problem.queries ** (1 / problem.p) * _longest_step(problem)
        reason = f"a step of length 1 is met by a standard deviation of {sigma:.6g}"
    return [
        bound_above(
            "optimal Gaussian",
            optimal,
            mechanisms="Gaussian noise on the strategy that certifies the norm",
            reason=reason,
            source="docs/background/lower-bounds.md, 4",
        ),
        bound_above(
            "Gaussian on the answers",
            plain,
            mechanisms="Gaussian noise on the answers themselves",
            reason=reason,
            source="docs/background/lower-bounds.md, 4; [ZLU] Section 1 for parity queries",
        ),
    ]


def _longest_step(problem: BoundProblem) -> float:
    """Longest step, max over v of norm(v)_2, rounded up."""
    workload, exponent = near_one(problem.workload)
    if problem.add_remove:
        square = workload.longest_column()
    else:
        workload, left_out = workload.without_offsets()
        square = workload.longest_difference() + math.fsum(left_out**2)
    return math.ldexp(math.sqrt(square), exponent)


def _theorem_d1(problem: BoundProblem) -> Bound:
    value, p, m = None, problem.p, problem.queries
    unit, reason = _classical(problem)
    if unit is not None:
        growth, moment = min(p, math.log(2 * m)), gaussian_moment_root(p) ** 2
        reason = f"c_p^2 = {moment:.4g} against min(p, log 2m) = {growth:.4g}"
        if moment <= growth:
            value = unit * problem.norm_upper * math.sqrt(growth)
    return bound_above(
        "Theorem D.1",
        value,
        mechanisms="Gaussian noise on the optimal strategy, classical scale",
        reason=reason,
        source="[ZLU] Theorem D.1",
    )


def _theorem_2_12(problem: BoundProblem) -> Bound:
    value, p, n = None, problem.p, problem.cells
    unit, reason = _classical(problem)
    if not problem.is_prefix:
        reason = "the queries are not the prefix sums"
    elif unit is not None:
        norm = n ** (1 / p) * math.log(n) * math.sqrt(min(p, math.log(n)))
        needed = gaussian_moment_root(p) * problem.norm_upper
        reason = f"c_p gamma = {needed:.4g} against n^(1/p) log n sqrt(min(p, log n)) = {norm:.4g}"
        if needed <= norm:
            value = unit * norm
    return bound_above(
        "Theorem 2.12",
        value,
        mechanisms="Gaussian noise on prefix sums by the square root, classical scale",
        reason=reason,
        source="[ZLU] Theorem 2.12",
    )


def _classical(problem: BoundProblem) -> tuple[float | None, str]:
    """The classical scale for a step of length 1 if it applies and is private, and the reason."""
    guarantee = problem.guarantee
    if not isinstance(guarantee, ApproxDP) or not problem.add_remove:
        return None, "the paper speaks of (epsilon, delta)-DP with add-remove neighbours"
    if guarantee.epsilon > 1 or guarantee.delta > 0.5 or math.isinf(problem.p):
        return None, "shown for epsilon up to 1, delta up to 1/2 (the classical scale) and finite p"
    unit = classical_gaussian_scale(1, epsilon=guarantee.epsilon, delta=guarantee.delta)
    if gaussian_delta(1, unit, guarantee.epsilon) > guarantee.delta:
        return None, "the classical scale is not private here"
    return unit, ""
