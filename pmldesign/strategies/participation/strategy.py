"""A strategy on data in which one person may take part in several steps.

Measurements, reconstruction and variances are those of R. Only how far apart the measurements of
neighbours are is another question (`distances`), and with it the scale of the noise.
"""

from __future__ import annotations

from functools import cached_property

from pmldesign.arguments import member
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.columns import require_norm
from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import raised
from pmldesign.privacy.sampled_steps import Sampling
from pmldesign.strategies.arguments import not_lower_triangular
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.online import bands_of, is_triangular, made_for, streaming_form
from pmldesign.strategies.participation.persons import PersonRows
from pmldesign.strategies.participation.schema import (
    AnyParticipation,
    SampledParticipation,
    participation_refusal,
)
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import Public
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array, Indices


class ParticipationStrategy(Strategy):
    """R, with the sensitivity of several participations.

    Args:
        whole: R.
        participation: of a person.
    """

    participation: AnyParticipation

    def __init__(self, whole: Strategy, participation: AnyParticipation) -> None:
        self.name, self.shape, self.public = whole.name, whole.shape, whole.public
        self.whole, self.participation = whole, participation
        self._sensitivities: dict[tuple[Neighbours, Norm], float] = {}

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
        raise self.participation.refusal()

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, or a bound above it.

        Raises:
            InvalidInputError: replace neighbours of a stream, the norm of cube noise for one, or a
                strategy that is too large.
            VerificationError: measurements of neighbours contradict it.
        """
        require_norm(norm)
        key = member("neighbours", neighbours, Neighbours), norm
        if key not in self._sensitivities:
            self._sensitivities[key] = self._sensitivity(*key)
        return self._sensitivities[key]

    def _sensitivity(self, neighbours: Neighbours, norm: Norm) -> float:
        from pmldesign.strategies.participation.distances import (
            require_plausible,
            require_plausible_rows,
            sensitivity,
        )
        from pmldesign.strategies.participation.person_distances import person_sensitivity

        if isinstance(self.participation, PersonRows):
            value = person_sensitivity(self.whole, self.participation, neighbours, norm)
            require_plausible_rows(self.whole, self.participation, neighbours, norm, value)
            return value
        if neighbours == Neighbours.REPLACE:
            raise participation_refusal()
        value = sensitivity(self.whole, self.participation, norm)
        require_plausible(self.whole, self.participation, norm, value)
        return value

    def sensitivity_for(self, neighbours: Neighbours, noise: Noise) -> float:
        """The same in the norm of a noise."""
        return self.sensitivity_under(neighbours, member("noise", noise, Noise).norm)

    def _beside(self, public: Public) -> Strategy:
        return ParticipationStrategy(self.whole.beside(public), self.participation)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine, or whose cells are not steps."""
        require_steps(workload, self.participation)
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
        """`variance_norm` if the structure of R gives it."""
        return self.whole.norm_by_structure(workload, power)

    @property
    def sampling(self) -> Sampling | None:
        """How records are drawn for the steps; None if they are not.

        Raises:
            InvalidInputError: R is not lower triangular, or has more bands than steps are apart.
        """
        schema = self.participation
        if not isinstance(schema, SampledParticipation) or schema.rate == 1:
            return None
        whole = self.whole
        if not (is_triangular(whole) or type(whole) is Strategy or whole.cells <= WRITTEN_CELLS):
            raise not_lower_triangular(self.name)
        bands = bands_of(whole).shape[1]
        if bands > schema.apart:
            raise InvalidInputError(
                f"strategy {self.name!r} has {bands} bands, and amplification by sampling is for"
                f" at most {schema.apart}, how far a record's steps are apart (participation"
                f" {schema}): take fewer bands, or what `optimize` designs for it"
            )
        longest = self.whole.sensitivity_under(Neighbours.ADD_REMOVE, "l2")
        return Sampling(schema.rate, schema.reach(self.cells), longest)

    def scaled(self, factor: float) -> ParticipationStrategy:
        """R times a positive number, and so the sensitivities that are known.

        Entries are rounded once more, which moves R x by a unit of every row of a person.
        """
        scaled = ParticipationStrategy(self.whole.scaled(factor), self.participation)
        units = self.participation.reach(self.cells) + 4
        scaled._sensitivities = {
            key: raised(value * factor, units) for key, value in self._sensitivities.items()
        }
        return scaled


def require_steps(workload: Workload, participation: AnyParticipation) -> None:
    """Refuse a product, whose cells are not steps of a stream.

    Contributions to all series in a step are a vector, and sensitivities of one series are for
    vectors of norm at most 1: they are those of all series together.

    Raises:
        InvalidInputError: several factors, and participation in steps.
    """
    if isinstance(participation, PersonRows) or len(workload.factors) == 1:
        return
    first = workload.factors[0].name
    raise InvalidInputError(
        f"participation {participation} is in the steps of one series, and {workload.name!r} is a"
        f" product; design {first}, of which `pmldesign stream FILE --workload"
        f" '{first}*histogram:12'` takes 12 with the same noise: what a person changes in a step"
        " is a vector of l2 norm at most 1"
    )


def without_participation(strategy: Strategy) -> Strategy:
    """R for people who take part once."""
    return strategy.whole if isinstance(strategy, ParticipationStrategy) else strategy


def with_participation(strategy: Strategy, participation: AnyParticipation | None) -> Strategy:
    """The strategy for so many participations, instead of its own.

    Raises:
        InvalidInputError: a participation that no step allows.
    """
    strategy = without_participation(strategy)
    if participation is None:
        return strategy
    if isinstance(participation, SampledParticipation) and participation.open:
        raise InvalidInputError(
            f"participation {participation} leaves the number of parts to `optimize`, with a"
            f" guarantee; say it here, such as sampled,every=16,rate={16 * participation.rate:g}"
        )
    return ParticipationStrategy(strategy, participation)


@made_for.register
def _(strategy: ParticipationStrategy, workload: Workload) -> Strategy:
    """The same R for running sums that have other weights of the queries."""
    made = made_for(strategy.whole, workload)
    return strategy if made is strategy.whole else with_participation(made, strategy.participation)


@streaming_form.register
def _(strategy: ParticipationStrategy) -> Strategy:
    """The lower-triangular strategy of the same Gram matrix."""
    return ParticipationStrategy(streaming_form(strategy.whole), strategy.participation)
