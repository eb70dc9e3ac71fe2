r"""Lower bounds on err_p: s times a certified lower bound on gamma_(p)(A).

If the noise z of an additive mechanism has Var(theta^T z) >= s^2 w(theta)^2 for every theta, with
w(theta) = max over steps v of abs(theta^T v), then every step lies in Cov(z)^(1/2) B_2 / s, which
is a factorization of A (replace: of A V), and

    err_p >= (sum_i Var(z_i)^(p/2))^(1/p) >= s gamma_(p)(A),        2 <= p <= inf.

At 2 < p < inf Jensen's inequality loses here, for one answer already. If steps move answer i by
w_i,

    err_p >= s_p (sum_i w_i^p)^(1/p),      s_p^p the least p-th moment of noise for a step of 1,

listed as a second bound. `one_dimensional` has both.
Gaussian noise and mixtures of it also have E abs(z_i)^p >= c_p^p Var(z_i)^(p/2), a factor c_p.
Averaging a mechanism over a large box of data makes its noise additive with the same epsilon, delta
and no larger error, so that under DP the bounds hold for every mechanism.
Proofs: docs/background/lower-bounds.md.

Those of [ZLU] have constants that their proofs support, and their conditions are checked.
Theorem 2.1 (additive noise). With d' = 2 delta/(1 - e^-eps), if
d' <= min(1/16, eps^2, 1 - e^-eps, eps kappa(A) m^((2-p)/(2p)) / (12 gamma_(p)(A))),

    err_p >= (15/128 - d') e^(3 eps/2) gamma_(p)(A) / (e^(3 eps) - 1).

Every mechanism: the same at (2 eps, e^eps delta) (Theorem 2.9). Theorems 1.3, 2.11 and 1.6 put

    Schatten-1   m^(1/p) sum of singular values / sqrt(m n)                     for gamma_(p)(A),
    prefix sums  n^(1/p) (2 + ln((2n + 1)/5) + ln(2n + 1)/(2n)) / pi,
    parity       m^(1/2 + 1/p), which is gamma_(p)(A) exactly.

As printed, Theorem 2.1 has the constant 1/8, the exponent 1 - 2/p and n for m; the proof needs what
stands here. docs/background/lower-bounds.md derives it, and shows why these bounds are weaker than
those above.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric.
"""

from __future__ import annotations

import math

from pmldesign.error_bounds.bound import ANY_SIZE, Bound, BoundProblem, bound_below
from pmldesign.error_bounds.one_dimensional import (
    least_deviation,
    least_moment_root,
    staircase_deviation,
    staircase_moment_root,
    total_variation_deviation,
)
from pmldesign.privacy.calibration import analytic_gaussian_scale
from pmldesign.privacy.guarantees import ZCDP, ApproxDP, CurrencyGuarantee, GaussianDP, PureDP
from pmldesign.privacy.noise import gaussian_moment_root

ADDITIVE = "additive noise that serves every number of records"
STEP = "a step of length 1 needs a standard deviation of {:.6g}"
NO_BOUND = (
    "this guarantee bounds no step of additive noise: e^epsilon times the sum of alpha without its "
    "smallest entry is 1 or more, or the delta that it implies is 1 or more"
)
SIDE = "answers may also depend on the known tables, which neighbours do not have in common"
EVERY = "every mechanism, worst case over all data"


def lower_bounds(problem: BoundProblem, *, norm_alone: bool) -> list[Bound]:
    """The bounds with the sharp constants of this package, whether or not they hold."""
    return [
        gaussian_class(problem),
        laplace_class(problem),
        least_variance(problem),
        least_moment(problem, norm_alone=norm_alone),
        staircase(problem, norm_alone=norm_alone),
        total_variation(problem),
    ]


def gaussian_class(problem: BoundProblem) -> Bound:
    """Gaussian noise of any covariance: c_p sigma(1) gamma."""
    sigma, reason, shifts = None, NO_BOUND, problem.shifts
    if isinstance(problem.guarantee, CurrencyGuarantee):
        sigma = 1 / math.sqrt(problem.guarantee.gaussian_square)
    elif shifts is not None and shifts.delta == 0:
        reason = "Gaussian noise of any size violates a guarantee without delta"
    elif shifts is not None:
        # sigma(1) is the private end of its bracket, which is 1e-6 wide
        sigma = analytic_gaussian_scale(1, epsilon=shifts.epsilon, delta=shifts.delta) / (1 + 1e-6)
    same = "" if _dp(problem) else ", the same for every number of records"
    return bound_below(
        "Gaussian mechanisms",
        None if sigma is None else gaussian_moment_root(problem.p) * sigma * problem.norm_lower,
        mechanisms=f"additive Gaussian noise of any covariance{same}",
        reason=reason if sigma is None else STEP.format(sigma) + _implied(problem),
        source="docs/background/lower-bounds.md, 4",
    )


def laplace_class(problem: BoundProblem) -> Bound:
    """Laplace noise on a strategy: c_p sqrt(2) gamma / epsilon."""
    value, shifts, guarantee = None, problem.shifts, problem.guarantee
    currency = isinstance(guarantee, CurrencyGuarantee)
    if shifts is None and not currency:
        reason = NO_BOUND
    elif shifts is not None and shifts.delta > 0 and guarantee.pml:
        reason = "the guarantee implies no least scale of Laplace noise"
    else:
        scale = _least_scale(problem)
        value = gaussian_moment_root(problem.p) * math.sqrt(2) * scale * problem.norm_lower
        reason = (
            f"an l1 sensitivity of 1 bounds the l2 sensitivity and needs a scale of "
            f"{scale:.6g}{_implied(problem)}"
        )
    return bound_below(
        "Laplace matrix mechanisms",
        value,
        mechanisms="R x measured with Laplace noise whose scale makes it "
        + ("meet the guarantee" if currency else "epsilon-DP")
        if _dp(problem)
        else "R x measured with Laplace noise, of the same scale for every number of records",
        reason=reason,
        source="docs/background/lower-bounds.md, 4",
    )


def least_variance(problem: BoundProblem) -> Bound:
    """The exact least variance of a step, times gamma."""
    deviation, reason, shifts = None, NO_BOUND, problem.shifts
    if problem.guarantee.published:
        reason = SIDE
    elif isinstance(problem.guarantee, CurrencyGuarantee):
        deviation, reason = (
            _by_divergence(problem.guarantee),
            "orders below 2 bound no variance here",
        )
    elif shifts is not None:
        deviation = least_deviation(shifts.epsilon, shifts.delta)
    return bound_below(
        "least variance",
        None if deviation is None else deviation * problem.norm_lower,
        mechanisms=_mechanisms(problem),
        reason=reason if deviation is None else STEP.format(deviation) + _implied(problem),
        source="docs/background/lower-bounds.md, 1, 2 and 3",
    )


def least_moment(problem: BoundProblem, *, norm_alone: bool) -> Bound:
    """The exact least p-th moment of a step, for how far steps move every answer."""
    value, reason, shifts = None, NO_BOUND, problem.shifts
    if norm_alone:
        reason = "only for people who count once, without public answers"
    elif not 2 < problem.p < math.inf:
        reason = "only for 2 < p < inf: at either end the least variance is never below it"
    elif isinstance(problem.guarantee, CurrencyGuarantee):
        reason = "only (epsilon, delta)-DP and PML have this bound"
    elif shifts is not None and problem.row_norm is None:
        reason = "the workload is too large for the largest step of every answer"
    elif shifts is not None:
        root = least_moment_root(problem.p, shifts.epsilon, shifts.delta)
        value = root * (problem.row_norm or 0.0)
        reason = f"a step of length 1 needs (E |z|^p)^(1/p) of {root:.6g}" + _implied(problem)
    return bound_below(
        "least moment",
        value,
        mechanisms=_mechanisms(problem),
        reason=reason,
        source="docs/background/lower-bounds.md, 1, 2 and 3",
    )


def staircase(problem: BoundProblem, *, norm_alone: bool) -> Bound:
    """The variance of the staircase mechanism times gamma, or its p-th moment for every answer."""
    value = None
    if not isinstance(problem.guarantee, PureDP):
        reason = "only epsilon-DP has this bound"
    elif not problem.add_remove:
        reason = "replacing a record changes two cells by exactly 1, not by every t in [-1, 1]"
    else:
        deviation = staircase_deviation(problem.guarantee.epsilon)
        value = deviation * problem.norm_lower
        if 2 < problem.p < math.inf and not norm_alone and problem.row_norm is not None:
            root = staircase_moment_root(problem.p, problem.guarantee.epsilon)
            value = max(value, root * problem.row_norm)
        reason = (
            f"a cell that may change by any t in [-1, 1] needs a standard deviation of "
            f"{deviation:.6g}; counts of whole records have the least variance bound only"
        )
    return bound_below(
        "staircase",
        value,
        mechanisms="every mechanism for cells of real values, worst case over data of any size",
        reason=reason,
        source="Geng and Viswanath 2014, Theorem 7; docs/background/lower-bounds.md, 2 and 3",
    )


def total_variation(problem: BoundProblem) -> Bound:
    """The elementary bound by the total variation of several steps, times gamma."""
    value, reason, shifts = None, NO_BOUND, problem.shifts
    if isinstance(problem.guarantee, CurrencyGuarantee):
        reason = "only (epsilon, delta)-DP and PML have this bound"
    if problem.guarantee.published:
        reason = SIDE
    elif shifts is not None:
        deviation = total_variation_deviation(shifts.epsilon, shifts.delta)
        value = deviation * problem.norm_lower
        reason = f"never above the least variance; standard deviation {deviation:.6g}"
        reason += _implied(problem)
    return bound_below(
        "total variation",
        value,
        mechanisms=_mechanisms(problem),
        reason=reason,
        source="docs/background/lower-bounds.md, 1, 2 and 3",
    )


def _by_divergence(guarantee: CurrencyGuarantee) -> float | None:
    """(e^D - 1)^(-1/2), for steps of a divergence of order 2 of at most D."""
    if guarantee.divergence is None:
        return None
    try:
        return 1 / math.sqrt(math.expm1(guarantee.divergence))
    except OverflowError:
        return 0.0


def _least_scale(problem: BoundProblem) -> float:
    """The least scale of Laplace noise for a step of l2 length 1, in any number of measurements.

    Divergences of such noise are concave in the square of the step (`targets.budgets`): one
    measurement has the least. Gaussian DP of mu has a divergence of order 1 of mu^2/2 at most.
    """
    guarantee = problem.guarantee
    if isinstance(guarantee, GaussianDP):
        guarantee = ZCDP(guarantee.mu**2 / 2)
    if isinstance(guarantee, CurrencyGuarantee):
        return 1 / guarantee.laplace_ratio / (1 + 1e-6)  # a private end, 5e-7 wide
    assert problem.shifts is not None
    return 1 / problem.shifts.epsilon


def _dp(problem: BoundProblem) -> bool:
    return not problem.guarantee.pml


def _mechanisms(problem: BoundProblem) -> str:
    return ANY_SIZE if _dp(problem) else ADDITIVE


def _implied(problem: BoundProblem) -> str:
    """How PML implies a guarantee for a step; empty under DP."""
    shifts = problem.shifts
    if _dp(problem) or shifts is None:
        return ""
    return f", as a step is ({shifts.epsilon:.6g}, {shifts.delta:.3g})-DP"


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
        problem: the workload, the error and the guarantee.
        general: for every mechanism, at (2 epsilon, e^epsilon delta).
    """
    guarantee = problem.guarantee
    if not isinstance(guarantee, PureDP | ApproxDP) or not problem.add_remove:
        return None, "the paper speaks of DP with add-remove neighbours"
    epsilon = guarantee.epsilon
    delta = guarantee.delta
    if general:
        # from 1 on no condition is met, so larger values can be equal
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
    """A bound for every mechanism from a lower bound on the norm, or the reason against it."""
    deviation, reason = step_deviation(problem, general=True)
    value = None
    if norm is None:
        reason = "the workload is too large for its singular values"
    elif isinstance(norm, str):
        reason = norm
    elif deviation is not None:
        value = deviation * norm
    return bound_below(
        name, value, mechanisms=EVERY, reason=reason, source=f"[ZLU] {source}, constants re-derived"
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
