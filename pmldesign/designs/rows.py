"""One row of a table: a strategy with calibrated noise, its exact error, and lower bounds on it.

A certified norm gives two lower bounds (docs/background/lower-bounds.md). One is for every
mechanism that satisfies the guarantee: the least variance or, at 2 < p < inf, the least moment; no
other bound in this package exceeds both. The other is for the class of the row: Gaussian noise of
any covariance, or Laplace noise on any strategy; integer-valued noise belongs to neither class.
Without a guarantee the scale of the noise is the sensitivity, and the errors of these classes are
at least c_p gamma_(p)(A) and sqrt(2) c_p gamma_(p)(A), with c_p the root of the p-th absolute
moment of N(0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pmldesign.error_bounds.bound import BoundProblem
from pmldesign.error_bounds.lower import gaussian_class, laplace_class, least_moment, least_variance
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.mechanisms import Mechanism, admissible, calibrated, on_own_grid, smallest_error
from pmldesign.mechanisms.exact_error import INTEGER_LAPLACE
from pmldesign.privacy.curves import PrivacyCurve, curve_of, pure_curve
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.loss import Fallback
from pmldesign.privacy.noise import Noise, gaussian_moment_root
from pmldesign.workloads import Workload
from pmldesign_solvers.certificate.cells import Certificate

if TYPE_CHECKING:
    from pmldesign.designs.questions import Question

DESIGN, LEAST_NORM = "design", "least-norm"
"""Names of the best row, and of the strategy of least norm."""
CLOSE = 1e-6
"""Relative difference below which two errors count as equal."""
BOUND_ROUNDING = 1e-12
"""Relative rounding of a lower bound computed here, downwards."""
OWN = "own"
"""Noise of a mechanism of the caller (`comparison.own.OwnMechanism`)."""
SHOWN = ("p", "noise", "sensitivity", "scale", "error", "rmse", "max_std", "ratio")
UNWEIGHTED = ("unweighted_error", "unweighted_rmse", "unweighted_max_std")
PARAMETERS = ("epsilon", "delta", "alpha", "rho", "mu", "order")
"""Numbers of guarantees."""
BOUNDS = ("norm", "lower_bound", "over_lower_bound", "class_bound", "over_class_bound")
"""Columns of a row; those of the queries without weights only if there are weights."""


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy at one p.

    Attributes:
        strategy: its name.
        p: of the l_p^p error.
        noise: "gaussian", "laplace" or "cube"; "integer-laplace" if it is discrete on integer
            measurements; "own" for a mechanism that is not ours.
        sensitivity: largest distance between the measurements of neighbours, l2 for Gaussian,
            l1 for Laplace and l_inf for cube noise.
        scale: of the noise on every measurement.
        error: exact l_p^p error, (E norm(M(x) - A x)_p^p)^(1/p); at p = inf `max_std`.
        rmse: root mean squared error of a query.
        max_std: largest standard deviation of a query; None if there are too many queries.
        ratio: error over the smallest error of its group: the same workload, p and guarantee.
        workload: its name.
        guarantee: the target of the calibration; None for a scale equal to the sensitivity.
        norm: tr_{p/2}(L L^T)^(1/2) times the l2 sensitivity: at least gamma_(p)(A); None if that
            sensitivity takes a matrix that is too large.
        lower_bound: no mechanism that meets the guarantee has a smaller error (under PML: no
            additive noise that serves every number of records); None if none is known.
        class_bound: no Gaussian mechanism, or no Laplace noise on a strategy, has a smaller error.
        unweighted_error: error of the queries without their weights; None if they have no weights.
        unweighted_rmse: their root mean squared error.
        unweighted_max_std: their largest standard deviation.
        fallback: the remaining guarantee under PML if alpha is wrong; None for others.
        mechanism: the strategy with its noise; None in a comparison, whose rows may come from
            other processes.
    """

    strategy: str
    p: float
    noise: str
    sensitivity: float
    scale: float
    error: float
    rmse: float
    max_std: float | None
    ratio: float
    workload: str
    guarantee: Guarantee | None
    norm: float | None
    lower_bound: float | None = None
    class_bound: float | None = None
    unweighted_error: float | None = None
    unweighted_rmse: float | None = None
    unweighted_max_std: float | None = None
    fallback: Fallback | None = None
    mechanism: Mechanism | None = field(default=None, compare=False, repr=False)

    @property
    def privacy(self) -> PrivacyCurve | None:
        """The guarantee in every privacy definition; None without a guarantee, or of own noise."""
        if self.guarantee is None or self.noise == OWN:
            return None
        integers = self.noise == INTEGER_LAPLACE
        kind = Noise.LAPLACE if integers else Noise(self.noise)
        curve = curve_of(kind, self.sensitivity, self.scale)
        return pure_curve(curve.ratio) if integers else curve

    @property
    def over_lower_bound(self) -> float | None:
        """Error over `lower_bound`; None without one, or if it is 0."""
        return self.error / self.lower_bound if self.lower_bound else None

    @property
    def over_class_bound(self) -> float | None:
        """Error over `class_bound`; None without one, or if it is 0."""
        return self.error / self.class_bound if self.class_bound else None

    def to_json(self) -> dict[str, Any]:
        """The row within one workload and guarantee."""
        numbers = {name: getattr(self, name) for name in (*SHOWN, *UNWEIGHTED)}
        there = {key: n for key, n in numbers.items() if key in SHOWN or n is not None}
        return {"name": self.strategy, **there}

    def to_record(self) -> dict[str, Any]:
        """Every column, for files; what does not apply is None."""
        bounds = {name: getattr(self, name) for name in BOUNDS}
        asked = {"workload": self.workload, **parameters(self.guarantee)}
        return {**asked, **self.to_json(), **bounds, **self._satisfied()}

    def _satisfied(self) -> dict[str, float | None]:
        """Epsilon without delta, rho of zCDP and mu of Gaussian DP, rounded up."""
        curve = self.privacy
        values = (None,) * 3 if curve is None else (curve.pure, curve.rho, curve.mu)
        finite = [value if value is not None and value < math.inf else None for value in values]
        return dict(
            zip(("satisfied_epsilon", "satisfied_rho", "satisfied_mu"), finite, strict=True)
        )


def parameters(guarantee: Guarantee | None) -> dict[str, float | None]:
    """Epsilon, delta and alpha of a guarantee; None for those it lacks, or with one alpha a cell.

    Also rho, mu and order of those that have one.
    """
    numbers = {name: getattr(guarantee, name, None) or None for name in PARAMETERS}
    if not isinstance(numbers["alpha"], float):
        numbers["alpha"] = None
    always = PARAMETERS[:3]
    return {name: n for name, n in numbers.items() if n is not None or name in always}


def row_of(name: str, factorization: Factorization, question: Question) -> Row:
    """The row of a strategy: the admissible noise with the smallest error, calibrated exactly.

    Args:
        name: of the row.
        factorization: the strategy on the workload of the question.
        question: with the guarantee, the noise and p.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `calibrated`.
    """
    sampled = factorization.strategy.sampling is not None
    kinds = admissible(question.guarantee, question.noise, question.p, sampled=sampled)
    return row_with(name, factorization, question, kinds)


def row_with(
    name: str, factorization: Factorization, question: Question, kinds: Iterable[Noise]
) -> Row:
    """The row of a strategy with the best of these kinds of noise; see `row_of`."""
    p, guarantee, grid = question.p, question.guarantee, question.integers
    noisy = [on_own_grid(calibrated(factorization, guarantee, kind), p, grid) for kind in kinds]
    return as_row(name, replace(smallest_error(noisy, p), p=p))


def as_row(name: str, mechanism: Mechanism) -> Row:
    """A mechanism as a row, at the p that it was chosen for; not yet compared."""
    plain, p = mechanism.unweighted, mechanism.p
    return Row(
        strategy=name,
        p=p,
        noise=mechanism.noise_name,
        sensitivity=mechanism.sensitivity,
        scale=mechanism.scale,
        error=mechanism.error(p),
        rmse=mechanism.rmse,
        max_std=mechanism.known_max_std,
        ratio=1.0,
        workload=mechanism.workload.name,
        guarantee=mechanism.guarantee,
        norm=_norm(mechanism.factorization, p),
        unweighted_error=None if plain is None else plain.error(p),
        unweighted_rmse=None if plain is None else plain.rmse,
        unweighted_max_std=None if plain is None else plain.max_std,
        fallback=mechanism.fallback,
        mechanism=mechanism,
    )


def _norm(factorization: Factorization, p: float) -> float | None:
    """The norm that the strategy attains; None if its l2 sensitivity takes too large a matrix."""
    try:
        return factorization.norm(p)
    except InvalidInputError:
        return None


def better(first: Row, second: Row) -> Row:
    """The second row if its error is smaller by more than CLOSE, else the first."""
    return second if second.error < first.error * (1 - CLOSE) else first


def with_ratios(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with the ratio of their errors to the smallest one; 1 up to CLOSE above it."""
    best = min(row.error for row in rows)
    ratios = [row.error / best if row.error > best * (1 + CLOSE) > 0 else 1.0 for row in rows]
    return tuple(replace(row, ratio=ratio) for row, ratio in zip(rows, ratios, strict=True))


def ranked(best: Row, others: Iterable[Row]) -> tuple[Row, ...]:
    """The best row, then the others by their errors, with ratios."""
    return with_ratios([best, *sorted(others, key=lambda row: row.error)])


def with_bounds(rows: Sequence[Row], workload: Workload, norm: Certificate) -> tuple[Row, ...]:
    """The rows, all of one p and guarantee, with the lower bounds that a certified norm gives."""
    p, guarantee = rows[0].p, rows[0].guarantee
    lower: float | None = None
    by_noise: dict[str, float | None]
    if guarantee is None:
        gaussian = gaussian_moment_root(p) * norm.lower * (1 - BOUND_ROUNDING)
        by_noise = {Noise.GAUSSIAN: gaussian, Noise.LAPLACE: 2**0.5 * gaussian}
    else:
        problem = BoundProblem(
            workload=workload,
            p=p,
            guarantee=guarantee,
            shifts=guarantee.shifts(workload.shape[1]),
            norm_lower=norm.lower,
            norm_upper=norm.upper,
        )
        every = [
            least_variance(problem),
            least_moment(problem, norm_alone=bool(guarantee.public_answers)),
        ]
        lower = max((bound.value for bound in every if bound.value is not None), default=None)
        by_noise = {
            Noise.GAUSSIAN: gaussian_class(problem).value,
            Noise.LAPLACE: laplace_class(problem).value,
        }
    return tuple(
        replace(row, lower_bound=lower, class_bound=by_noise.get(row.noise)) for row in rows
    )
