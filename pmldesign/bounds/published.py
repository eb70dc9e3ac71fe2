r"""The lower bounds of [ZLU], with constants that their proofs support and conditions checked.

Theorem 2.1 (additive noise). With d' = 2 delta/(1 - e^-eps), if
d' <= min(1/16, eps^2, 1 - e^-eps, eps kappa(A) m^((2-p)/(2p)) / (12 gamma_(p)(A))),

    err_p >= (15/128 - d') e^(3 eps/2) gamma_(p)(A) / (e^(3 eps) - 1).

Every mechanism: the same at (2 eps, e^eps delta) (Theorem 2.9). Theorems 1.3, 2.11 and 1.6 put

    Schatten-1   m^(1/p) sum of singular values / sqrt(m n)                     for gamma_(p)(A),
    prefix sums  n^(1/p) (2 + ln((2n + 1)/5) + ln(2n + 1)/(2n)) / pi,
    parity       m^(1/2 + 1/p), which is gamma_(p)(A) exactly.

As printed, Theorem 2.1 has the constant 1/8, the exponent 1 - 2/p and n for m; the proof needs what
stands here. docs/bounds.md has the derivation, and why these bounds are weaker than `lower`.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric.
"""

from __future__ import annotations

import math

from pmldesign.bounds.bound import Bound, BoundProblem, bound_below
from pmldesign.privacy.guarantees import ApproxDP, PureDP

EVERY = "every mechanism, worst case over all data"


def published_bounds(problem: BoundProblem) -> list[Bound]:
    """The paper's lower bounds, whether or not they hold."""
    deviation, reason = step_deviation(problem, general=False)
    return [
        bound_below(
            "Theorem 2.1",
            None if deviation is None else deviation * problem.norm_lower,
            mechanisms="additive noise that does not depend on the data",
            reason=reason,
            source="[ZLU] Theorem 2.1, constants re-derived",
        ),
        _general(problem, "Theorem 2.1 for all", problem.norm_lower, "Theorems 2.1 and 2.9"),
        bound_below(
            "Theorem 1.4",
            None,
            mechanisms=EVERY,
            reason="the paper does not say how large its universal constant C' is",
            source="[ZLU] Theorem 1.4",
        ),
        _general(problem, "Schatten-1", problem.schatten_norm, "Theorem 1.3, Lemma 2.10"),
        _general(problem, "prefix sums", _prefix_norm(problem), "Theorem 2.11, Theorem A.5"),
        _general(problem, "parity", _parity_norm(problem), "Theorem 1.6"),
    ]


def step_deviation(problem: BoundProblem, *, general: bool) -> tuple[float | None, str]:
    """The factor of gamma_(p)(A) in Theorem 2.1, or None, and the reason.

    Args:
        problem: what is to be answered, and how privately.
        general: for every mechanism, at (2 epsilon, e^epsilon delta).
    """
    guarantee = problem.guarantee
    if not isinstance(guarantee, PureDP | ApproxDP) or not problem.add_remove:
        return None, "the paper speaks of DP with add-remove neighbours"
    epsilon = guarantee.epsilon
    delta = guarantee.delta
    if general:
        # from 1 on no condition is met, so that larger values need not be told apart
        delta = math.exp(min(epsilon + math.log(delta), 1.0)) if delta > 0 else 0.0
        epsilon *= 2
    delta_prime = 2 * delta / -math.expm1(-epsilon)
    width = problem.queries ** (1 / problem.p - 0.5) * problem.kappa
    limits = {
        "1/16": 1 / 16,
        "epsilon^2": epsilon**2,
        "1 - e^-epsilon": -math.expm1(-epsilon),
        "epsilon kappa m^((2-p)/(2p)) / (12 gamma)": epsilon * width / (12 * problem.norm_upper)
        if problem.norm_upper > 0
        else math.inf,
    }
    name = min(limits, key=limits.__getitem__)
    at = f"delta' = {delta_prime:.3g} at epsilon = {epsilon:.6g}, delta = {delta:.3g}"
    if delta_prime > limits[name]:
        return None, f"{at} exceeds {name} = {limits[name]:.3g}"
    factor = (15 / 128 - delta_prime) * math.exp(-1.5 * epsilon) / -math.expm1(-3 * epsilon)
    return factor, f"{at} is at most {name} = {limits[name]:.3g}"


def _general(problem: BoundProblem, name: str, norm: float | str | None, source: str) -> Bound:
    """A bound for every mechanism from a lower bound on the norm, or from why there is none."""
    deviation, reason = step_deviation(problem, general=True)
    value = None
    if norm is None:
        reason = "the workload is too large for its singular values"
    elif isinstance(norm, str):
        reason = norm
    elif deviation is not None:
        value = deviation * norm
    return bound_below(
        name,
        value,
        mechanisms=EVERY,
        reason=reason,
        source=f"[ZLU] {source}, constants re-derived",
    )


def _prefix_norm(problem: BoundProblem) -> float | str:
    if not problem.is_prefix:
        return "the queries are not the prefix sums"
    n = problem.cells
    logarithms = 2 + math.log((2 * n + 1) / 5) + math.log(2 * n + 1) / (2 * n)
    norm: float = n ** (1 / problem.p) * logarithms / math.pi
    return norm


def _parity_norm(problem: BoundProblem) -> float | str:
    if not problem.is_parity:
        return "the queries are not orthogonal rows of signs"
    norm: float = problem.queries ** (0.5 + 1 / problem.p)
    return norm
