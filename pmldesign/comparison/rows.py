"""One line of a comparison: a strategy with its noise, its error, and how good that can be.

Two lower bounds on the error come with a certified norm (docs/bounds.md): for every mechanism that
meets the guarantee, the least variance or, at 2 < p < inf, the least moment, which no other bound
known here exceeds; and for the class of the row, Gaussian noise of any covariance or Laplace noise
on any strategy; discrete noise on whole measurements is in neither. Without a guarantee the scale
is the sensitivity, and the errors of these classes are at least c_p gamma_(p)(A) and
sqrt(2) c_p gamma_(p)(A).

Mechanisms of your own are rows too, with other noise or another reconstruction:
M(x) = L (R x + z), L R = A, with uncorrelated noise z of one variance on the measurements. You say
which variance a guarantee asks for at a sensitivity; errors follow, at p = 2 and p = inf from
variances alone. That this noise meets the guarantee is your claim: nothing here checks it, and no
release draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmldesign.arguments import finite_matrix, instance, positive, shown
from pmldesign.bounds.bound import BoundProblem
from pmldesign.bounds.lower import gaussian_class, laplace_class, least_moment, least_variance
from pmldesign.designs.rivals import CLOSE
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization, answer
from pmldesign.mechanisms import Mechanism
from pmldesign.mechanisms.exact_error import OWN_GRID
from pmldesign.privacy.curves import PrivacyCurve, curve_of, pure_curve
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.loss import Fallback
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.noise import Noise, gaussian_moment_root
from pmldesign.strategies import as_strategy
from pmldesign.workloads import Workload
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.operators.operator import Array

BOUND_ROUNDING = 1e-12
"""Relative rounding of a lower bound computed here, downwards."""
OWN = "own"
"""Noise that is not ours (`OwnMechanism`)."""
SHOWN = ("p", "noise", "sensitivity", "scale", "error", "rmse", "max_std", "ratio")
UNWEIGHTED = ("unweighted_error", "unweighted_rmse", "unweighted_max_std")
PARAMETERS = ("epsilon", "delta", "alpha", "rho", "mu", "order")
"""Numbers of guarantees."""
BOUNDS = ("norm", "lower_bound", "over_lower_bound", "class_bound", "over_class_bound")
"""Columns of a row, those of queries without their weights where there are weights."""
NOISES = {"l1": Noise.LAPLACE, "l2": Noise.GAUSSIAN, "linf": Noise.CUBE}
"""Whose sensitivity is in which norm."""
EXACT = 1e-9
"""Largest part of A, entry by entry, that L R may differ from it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy at one p.

    Attributes:
        strategy: its name.
        p: of the l_p^p error.
        noise: "gaussian", "laplace" or "cube"; "laplace own-grid" where it is discrete on the whole
            numbers that are measured; "own" for a mechanism that is not ours.
        sensitivity: largest distance between the measurements of neighbours, l2 for Gaussian,
            l1 for Laplace and l_inf for cube noise.
        scale: of the noise on every measurement.
        error: exact l_p^p error, (E norm(M(x) - A x)_p^p)^(1/p); at p = inf `max_std`.
        rmse: root mean squared error of a query.
        max_std: largest standard deviation of a query; None where they are too many.
        ratio: error over the smallest error of its group: the same workload, p and guarantee.
        workload: its name.
        guarantee: what the scale was calibrated to; None for a scale equal to the sensitivity.
        norm: tr_{p/2}(L L^T)^(1/2) times the l2 sensitivity: at least gamma_(p)(A).
        lower_bound: no mechanism that meets the guarantee has a smaller error (under PML: no
            additive noise that serves every number of records); None where none is known.
        class_bound: no Gaussian mechanism, or no Laplace noise on a strategy, has a smaller error.
        unweighted_error: error of the queries without their weights; None where they have none.
        unweighted_rmse: their root mean squared error.
        unweighted_max_std: their largest standard deviation.
        fallback: what is left of a guarantee under PML if alpha is wrong; None for others.
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
    norm: float
    lower_bound: float | None = None
    class_bound: float | None = None
    unweighted_error: float | None = None
    unweighted_rmse: float | None = None
    unweighted_max_std: float | None = None
    fallback: Fallback | None = None

    @property
    def privacy(self) -> PrivacyCurve | None:
        """What its noise satisfies in every currency; None without a guarantee, or of own noise."""
        if self.guarantee is None or self.noise == OWN:
            return None
        kind = Noise(self.noise.removesuffix(OWN_GRID))
        curve = curve_of(kind, self.sensitivity, self.scale)
        return pure_curve(curve.ratio) if self.noise.endswith(OWN_GRID) else curve

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
    """Epsilon, delta and alpha of a guarantee; None where it has none, or one alpha a cell.

    Also rho, mu and order of those that have one.
    """
    numbers = {name: getattr(guarantee, name, None) or None for name in PARAMETERS}
    if not isinstance(numbers["alpha"], float):
        numbers["alpha"] = None
    always = PARAMETERS[:3]
    return {name: n for name, n in numbers.items() if n is not None or name in always}


def as_row(name: str, p: float, mechanism: Mechanism) -> Row:
    """A mechanism as a row, not yet compared."""
    plain = mechanism.unweighted
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
        guarantee=None if mechanism.calibration is None else mechanism.calibration.guarantee,
        norm=mechanism.factorization.norm(p),
        unweighted_error=None if plain is None else plain.error(p),
        unweighted_rmse=None if plain is None else plain.rmse,
        unweighted_max_std=None if plain is None else plain.max_std,
        fallback=mechanism.fallback,
    )


def with_ratios(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with their errors set against the smallest one; ratio 1 up to CLOSE above it."""
    best = min(row.error for row in rows)
    ratios = [row.error / best if row.error > best * (1 + CLOSE) > 0 else 1.0 for row in rows]
    return tuple(replace(row, ratio=ratio) for row, ratio in zip(rows, ratios, strict=True))


def best_first(rows: Sequence[Row]) -> list[Row]:
    """The rows, the first one of ratio 1 moved to the front."""
    best = [row.ratio for row in rows].index(1.0)
    return [rows[best], *rows[:best], *rows[best + 1 :]]


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


@dataclass(frozen=True, eq=False)
class OwnMechanism:
    """A mechanism of yours, for `compare`.

    Args:
        name: of its row.
        strategy: R, whatever `mechanism` takes: "identity", a matrix of shape (r, n), a design.
        variance: of the noise on each measurement, as a function of the guarantee (None where the
            comparison has none) and of the sensitivity. At the sensitivity 1 without a guarantee
            Laplace noise has 2, Gaussian noise 1.
        norm: of the sensitivity: "l1", "l2" or "linf".
        reconstruction: L, shape (m, r); None for A R^+, the least squares one.

    Raises:
        InvalidInputError: an argument of another kind.
    """

    name: str
    strategy: Any
    variance: Callable[[Guarantee | None, float], float]
    norm: Norm = "l1"
    reconstruction: Any = None

    def __post_init__(self) -> None:
        instance("name", self.name, str, "a text")
        instance("variance", self.variance, Callable, "a function of guarantee and sensitivity")
        if not isinstance(self.norm, str) or self.norm not in NOISES:
            raise InvalidInputError(
                f"norm must be one of {', '.join(NOISES)}, got {shown(self.norm)}"
            )

    def row(
        self, workload: Workload, neighbours: Neighbours, guarantee: Guarantee | None, p: float
    ) -> Row:
        """Its row at p = 2 or inf.

        Raises:
            InvalidInputError: another p, a strategy or reconstruction that does not answer the
                workload, or a variance that is no positive number.
        """
        if p not in (2, math.inf):
            raise InvalidInputError(
                f"{self.name}: errors of mechanisms of your own follow from variances, at p = 2 and"
                f" inf alone; got p = {p:g}"
            )
        factorization = answer(as_strategy(self.strategy, workload), workload, neighbours)
        sensitivity = factorization.sensitivity(NOISES[self.norm])
        variance = positive(f"variance of {self.name}", self.variance(guarantee, sensitivity))
        deviations = math.sqrt(variance) * self._deviations(factorization)
        size, largest = float(np.linalg.norm(deviations)), float(deviations.max())
        return Row(
            strategy=self.name,
            p=p,
            noise=OWN,
            sensitivity=sensitivity,
            scale=math.sqrt(variance),
            error=size if p == 2 else largest,
            rmse=size / math.sqrt(len(deviations)),
            max_std=largest,
            ratio=1.0,
            workload=factorization.workload.name,
            guarantee=guarantee,
            norm=factorization.norm(p),
        )

    def _deviations(self, factorization: Factorization) -> Array:
        """Standard deviations of the answers per unit of noise: norms of the rows of L."""
        if self.reconstruction is None:
            return factorization.deviations
        name = f"reconstruction of {self.name}"
        given = finite_matrix(name, self.reconstruction)
        measured, asked = factorization.strategy.matrix, factorization.workload.to_dense()
        if given.shape != (len(asked), len(measured)):
            raise InvalidInputError(
                f"{name} must have shape {(len(asked), len(measured))}, got {given.shape}"
            )
        off = np.abs(given @ measured - asked).max()
        if off > EXACT * max(1.0, float(np.abs(asked).max())):
            raise InvalidInputError(
                f"{name} times the strategy must be the workload; an entry is {off:.3g} off"
            )
        return np.asarray(np.linalg.norm(given, axis=1))
