"""A question: the queries, the measure of their errors, and the guarantee to be met.

`optimize`, `compare` and `sweep` ask questions, and `flow` answers them: candidates, their rows,
and a result. A question is validated once, when it is made, so that an unanswerable one is refused
before any solver runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pmldesign.arguments import exponent, flags, whole
from pmldesign.designs.options import DesignArguments, DesignOptions
from pmldesign.designs.streaming import require_streaming
from pmldesign.factorization import answer, with_known
from pmldesign.mechanisms import NoiseChoice, admissible, require_cells, require_feasible
from pmldesign.privacy.calibration import require_amplified
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.participation.schema import (
    Participation,
    SampledParticipation,
    has_fractions,
)
from pmldesign.workloads import Workload, WorkloadLike


@dataclass(frozen=True, eq=False)
class Question:
    """A question about one workload.

    Attributes:
        workload: A, shape (m, n), given the invariants.
        p: exponent of the l_p error, in [2, inf].
        guarantee: the promise; None for noise of a scale equal to the sensitivity.
        noise: "gaussian", "laplace", "integer-laplace" (integer-valued wherever a strategy measures
            integers and the error is smaller), "cube", or "auto" for all that can satisfy the
            guarantee.
        options: of the solvers, among them the relation of neighbours (a guarantee has its own) and
            the participation.
        streaming: whether the strategy has to be lower triangular; then nothing is searched.
        seed: of the random starts of searches.

    Raises:
        InvalidInputError: an argument out of range, or arguments that exclude each other.
        InfeasibleError: the noise cannot satisfy the guarantee at any scale.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """

    workload: Workload
    p: float = 2.0
    guarantee: Guarantee | None = None
    noise: NoiseChoice = "auto"
    options: DesignOptions = field(default_factory=DesignOptions)
    streaming: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", exponent(self.p))
        object.__setattr__(self, "seed", whole("seed", self.seed, 0))
        flags(streaming=self.streaming)
        options = self.options.about(self.workload)
        guarantee, schema = self.guarantee, options.schema
        require_cells(guarantee, fractions=has_fractions(self.workload))
        kinds = self.kinds
        if guarantee is not None:
            options = replace(options, neighbours=guarantee.neighbours)
        if guarantee is not None and guarantee.pml and schema is not None:
            raise schema.refusal()
        if isinstance(schema, SampledParticipation) and schema.open:
            from pmldesign.designs.participation.sampled import with_parts

            schema = with_parts(self.workload, schema, guarantee)
            options = replace(options, participation=schema)
        object.__setattr__(self, "options", options)
        if isinstance(schema, SampledParticipation) and schema.rate < 1 and guarantee:
            require_amplified(guarantee, Noise.GAUSSIAN if self.noise == "auto" else kinds[0])
        if self.streaming:
            full_rank = options.method == "scaling"
            require_streaming(self.workload, options.neighbours, full_rank=full_rank)
        require_feasible(guarantee, self.workload.shape[1], noise=self.noise, p=self.p)
        if options.start is not None:
            answer(options.start, self.workload, options.neighbours)

    @property
    def relation(self) -> Neighbours:
        """How neighbouring data sets differ."""
        return self.options.neighbours

    @property
    def kinds(self) -> tuple[Noise, ...]:
        """The kinds of noise to consider for a design."""
        return admissible(self.guarantee, self.noise, self.p)

    @property
    def integers(self) -> bool | None:
        """Whether Laplace noise is integer-valued; see `on_own_grid`."""
        if self.noise == "auto":
            return False if self.options.fractions else None
        return self.noise == "integer-laplace"

    @property
    def repeated(self) -> bool:
        """Whether a person takes part in several steps of a stream."""
        return isinstance(self.options.schema, Participation)


def question_of(
    workload: WorkloadLike,
    guarantee: Guarantee | None,
    known: WorkloadLike | None,
    options: DesignArguments,
    **asked: Any,
) -> Question:
    """A question from what callers write.

    Args:
        workload: what `as_workload` takes.
        guarantee: the promise, or None.
        known: queries whose answers are public and not protected; None for none.
        options: the attributes of `DesignOptions`.
        asked: the other attributes of `Question`.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `Question`.
    """
    queries, promise = with_known(workload, guarantee, known)
    limits = DesignOptions.of(options)
    if known is not None:
        limits = replace(limits, neighbours=Neighbours.REPLACE)
    return Question(queries, guarantee=promise, options=limits, **asked)
