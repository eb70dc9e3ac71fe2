"""A strategy on data in which one person may take part in several steps.

Measurements, reconstruction and variances are those of R. Only how far apart the measurements of
neighbours are is another question (`distances`), and with it the scale of the noise.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.check import require_plausible
from pmldesign.strategies.participation.distances import sensitivity
from pmldesign.strategies.participation.schema import Participation, participation_refusal
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array, Indices

if TYPE_CHECKING:
    from pmldesign.strategies.whole.lattice import Lattice


class ParticipationStrategy(Strategy):
    """R, with the sensitivity of several participations.

    Args:
        whole: R.
        participation: of a person.
    """

    def __init__(self, whole: Strategy, participation: Participation) -> None:
        self.name, self.shape = whole.name, whole.shape
        self.whole, self.participation = whole, participation
        self._sensitivities: dict[Norm, float] = {}

    @property
    def matrix(self) -> Array:
        """R, shape (r, n)."""
        return self.whole.matrix

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        return self.whole._inverse_and_rank

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that the entries of `matrix` are off by at most, relative to each."""
        return self.whole.entry_units

    def column_labels(self) -> Indices | None:
        """Labels of the columns of R."""
        return self.whole.column_labels()

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:  # noqa: ARG002
        """None: pairs of columns are not all that neighbours differ in.

        Raises:
            InvalidInputError: always; guarantees of single records do not apply.
        """
        raise participation_refusal()

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, or a bound above it.

        Raises:
            InvalidInputError: replace neighbours, or a strategy that is too large.
            VerificationError: measurements of neighbours contradict it.
        """
        if neighbours == Neighbours.REPLACE:
            raise participation_refusal()
        if norm not in self._sensitivities:
            value = sensitivity(self.whole, self.participation, norm)
            require_plausible(self.whole, self.participation, norm, value)
            self._sensitivities[norm] = value
        return self._sensitivities[norm]

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        self.whole.require_answers(workload)

    def measure(self, x: Array) -> Array:
        """R x."""
        return self.whole.measure(x)

    def estimate(self, measurements: Array) -> Array:
        """R^+ y."""
        return self.whole.estimate(measurements)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        return self.whole.variances(workload)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` where the structure of R tells it."""
        return self.whole.norm_by_structure(workload, power)

    def on_lattice(
        self,
        workload: Workload,  # noqa: ARG002
        bits: int,  # noqa: ARG002
        beside: Strategy | None = None,  # noqa: ARG002
    ) -> Lattice:
        """None: the sensitivity of whole numbers is that of one participation.

        Raises:
            InvalidInputError: always.
        """
        raise InvalidInputError(
            "a release is for one participation of each record; several are for `pmldesign stream`"
        )

    def scaled(self, factor: float) -> ParticipationStrategy:
        """R times a positive number."""
        return ParticipationStrategy(self.whole.scaled(factor), self.participation)

    def streaming(self) -> Strategy:
        """The lower-triangular strategy of the same Gram matrix."""
        return ParticipationStrategy(self.whole.streaming(), self.participation)


def with_participation(strategy: Strategy, participation: Participation | None) -> Strategy:
    """The strategy for so many participations; that of one participation itself.

    Raises:
        InvalidInputError: a participation that no step allows.
    """
    if isinstance(strategy, ParticipationStrategy):
        strategy = strategy.whole
    if participation is None:
        return strategy
    return ParticipationStrategy(strategy, participation)


def participation_of(strategy: Strategy) -> Participation | None:
    """How often a person takes part; None for once."""
    return strategy.participation if isinstance(strategy, ParticipationStrategy) else None
