"""How close to the best possible: lower and upper bounds on err_p, each with its conditions.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric.
"""

from __future__ import annotations

from collections.abc import Mapping

from pmldesign.arguments import exponent, non_negative
from pmldesign.error_bounds.bound import ANY_SIZE as ANY_SIZE
from pmldesign.error_bounds.bound import Bound as Bound
from pmldesign.error_bounds.bound import BoundProblem
from pmldesign.error_bounds.bound import Bounds as Bounds
from pmldesign.error_bounds.bound import Kind as Kind
from pmldesign.error_bounds.bound import kappa as kappa
from pmldesign.error_bounds.lower import lower_bounds, published_bounds
from pmldesign.error_bounds.one_dimensional import least_deviation as least_deviation
from pmldesign.error_bounds.one_dimensional import least_moment_root as least_moment_root
from pmldesign.error_bounds.one_dimensional import staircase_deviation as staircase_deviation
from pmldesign.error_bounds.one_dimensional import staircase_moment_root as staircase_moment_root
from pmldesign.error_bounds.one_dimensional import (
    total_variation_deviation as total_variation_deviation,
)
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.workloads.base import Workload
from pmldesign_solvers import face

__getattr__ = face(__name__, {"lower": "least_moment", "bound": "is_prefix"})


def all_bounds(
    workload: Workload,
    *,
    norm_lower: float,
    norm_upper: float,
    p: float,
    guarantee: Guarantee,
    errors: Mapping[str, float] | None = None,
    norm_alone: bool = False,
) -> tuple[Bound, ...]:
    """Every bound on err_p that is known here; those that do not hold say why.

    Args:
        workload: A, m queries on n cells.
        norm_lower: certified lower bound on gamma_(p)(A) (`Certificate.lower`); on its replace
            version if neighbours replace a record, as PML always does.
        norm_upper: certified upper bound on the same norm.
        p: in [2, inf]; at inf the error is the largest root mean squared error of a query.
        guarantee: of the mechanisms.
        errors: exact errors of mechanisms that satisfy it, by name, as further upper bounds.
        norm_alone: whether only bounds that follow from the norm hold: if it is for several
            participations of a person, or given invariants.

    Returns:
        Lower bounds, then upper bounds.

    Raises:
        InvalidInputError: an argument out of range, or alpha that does not fit the cells.
    """
    norm_lower = non_negative("norm_lower", norm_lower)
    norm_upper = non_negative("norm_upper", norm_upper)
    if norm_lower > norm_upper:
        raise InvalidInputError(
            f"norm_lower must be at most norm_upper, got {norm_lower} and {norm_upper}"
        )
    problem = BoundProblem(
        workload=workload,
        p=exponent(p),
        guarantee=guarantee,
        shifts=guarantee.shifts(workload.shape[1]),
        norm_lower=norm_lower,
        norm_upper=norm_upper,
    )
    from pmldesign.error_bounds.upper import upper_bounds

    if norm_alone:
        reached = upper_bounds(problem, errors or {})[: len(errors or {}) + 1]
        return (*lower_bounds(problem, norm_alone=True), *reached)
    return (
        *lower_bounds(problem, norm_alone=False),
        *published_bounds(problem),
        *upper_bounds(problem, errors or {}),
    )
