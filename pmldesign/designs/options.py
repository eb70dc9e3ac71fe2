"""The options of a solver (`dispatch`), checked once where a public function makes them.

An option is added here, and in the command that has it: public functions take them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, TypeVar

from pmldesign.arguments import flags, instance, member, named_arguments, positive, shown, whole
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, NeighboursLike
from pmldesign.strategies import Strategy, StrategyLike, as_strategy
from pmldesign.strategies.participation.schema import (
    AnyParticipation,
    Participation,
    as_participation,
    has_fractions,
    participation_refusal,
    people_in,
)
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.workloads import Workload
from pmldesign_solvers.norm.solution import SolverOptions, Step
from pmldesign_solvers.operators.deadline import Deadline, Effort
from pmldesign_solvers.operators.differences import Relation
from pmldesign_solvers.search.solution import SearchStep

Method = Literal["scaling", "primal", "dual"]
METHODS: tuple[Method, ...] = ("scaling", "primal", "dual")
Callback = Callable[[Step | SearchStep], None]
Function = TypeVar("Function", bound=Callable[..., Any])


class DesignArguments(TypedDict, total=False):
    """The attributes of `DesignOptions` as callers write them."""

    neighbours: NeighboursLike
    rel_gap: float
    max_steps: int
    time_limit: float | Deadline | None
    method: Method
    solver: Literal["SCS", "CLARABEL"]
    buffers: int | None
    participation: AnyParticipation | str | None
    start: StrategyLike | None
    fractions: bool
    effort: Effort | Literal["quick", "normal", "thorough"]
    callback: Callback | None


@dataclass(frozen=True, slots=True)
class DesignOptions:
    """The options of a solver.

    Attributes:
        neighbours: "add-remove" or "replace"; under replace the number of records is public and
            the strategy measures only what differs between the cells. A guarantee says it itself.
        rel_gap: stop when both bounds are this close, relatively; positive.
        max_steps: stop after this many iterations; at least 1.
        time_limit: stop after this many seconds, or at a `Deadline`; None for no limit. It is
            checked between steps; the first step is always taken.
        method: "scaling" is the fast certified solver; "primal" and "dual" are semidefinite
            programs for CVXPY, small workloads only.
        solver: "SCS" or "CLARABEL", for the semidefinite programs.
        buffers: how many numbers the strategy of running sums may keep on a stream, from 2 to 128,
            or 1 for several participations; None for as many as the gap asks for.
        participation: how often a person takes part in the steps of running sums, such as
            "16,every=64" or "4,min-sep=64", under add-remove, or in the rows of a table,
            such as "3,any" (docs/guides/bounded-contributions.md); None for once.
        start: a strategy, an earlier design or a matrix that the searches for Laplace and cube
            noise use as an additional start; the one for Laplace noise ends at least as good. The
            design of least norm does not depend on it.
        fractions: whether cells hold fractions of records, as for sums and means of numbers; noise
            "auto" is then never integer-valued, and otherwise where standard deviations are smaller
            by 5% or more.
        effort: how much work the searches for Laplace and cube noise and under PML do: "quick",
            "normal", or "thorough", which goes on while anything is gained.
        callback: called with every `Step` of the "scaling" method and of the searches. Ctrl-C
            while they run keeps the best strategy so far, with its true gap.

    Raises:
        InvalidInputError: an argument out of range.
    """

    neighbours: Neighbours = Neighbours.ADD_REMOVE
    rel_gap: float = 1e-6
    max_steps: int = 1000
    time_limit: float | Deadline | None = None
    method: Method = "scaling"
    solver: str = "SCS"
    buffers: int | None = None
    participation: AnyParticipation | str | None = None
    start: Any = None
    fractions: bool = False
    effort: Effort | str = Effort.NORMAL
    callback: Callback | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rel_gap", positive("rel_gap", self.rel_gap))
        if not (self.time_limit is None or isinstance(self.time_limit, Deadline)):
            object.__setattr__(self, "time_limit", positive("time_limit", self.time_limit))
        object.__setattr__(self, "max_steps", whole("max_steps", self.max_steps))
        if not isinstance(self.effort, str) or self.effort not in [*Effort]:
            raise InvalidInputError(
                f"effort must be one of {', '.join(Effort)}, got {shown(self.effort)}"
            )
        object.__setattr__(self, "effort", Effort(self.effort))
        if self.callback is not None:
            instance("callback", self.callback, Callable, "a function of a step")
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise InvalidInputError(
                f"method must be one of {', '.join(METHODS)}, got {shown(self.method)}"
            )
        if self.buffers is not None:
            from pmldesign_solvers.streams.solve import MOST_BUFFERS

            least = 1 if isinstance(self.schema, Participation) else 2
            if not least <= whole("buffers", self.buffers) <= MOST_BUFFERS:
                raise InvalidInputError(
                    f"buffers must be from {least} to {MOST_BUFFERS}, got {self.buffers}"
                )
        flags(fractions=self.fractions)
        if self.start is not None:
            object.__setattr__(self, "start", _start(self.start))
        relation = member("neighbours", self.neighbours, Neighbours)
        object.__setattr__(self, "neighbours", relation)
        if isinstance(self.schema, Participation) and self.replace:
            raise participation_refusal()

    @property
    def schema(self) -> AnyParticipation | None:
        """The participation, whatever it was given as."""
        return as_participation(self.participation)

    @property
    def stopping(self) -> SolverOptions:
        """When a solver stops, and who watches it."""
        deadline = Deadline.of(self.time_limit)
        return SolverOptions(self.rel_gap, self.max_steps, deadline, self.callback)

    @classmethod
    def of(cls, arguments: DesignArguments) -> DesignOptions:
        """The options that a caller writes.

        Raises:
            InvalidInputError: an argument out of range.
        """
        return cls(**arguments)  # type: ignore[arg-type]  # names become members, once checked

    def about(self, workload: Workload) -> DesignOptions:
        """The options for the people in the cells of a workload, if it has a schema.

        Records that are divided among cells are on a finer grid than that of whole measurements.

        Raises:
            InvalidInputError: the participation is another one than that of the schema.
        """
        if workload.whole.schema is None:
            return self
        participation = people_in(workload, self.schema)
        fractions = self.fractions or has_fractions(workload)
        return replace(self, participation=participation, fractions=fractions)

    @property
    def begun(self) -> DesignOptions:
        """The options once the clock runs: all parts of a design share one deadline."""
        return replace(self, time_limit=Deadline.of(self.time_limit))

    @property
    def replace(self) -> bool:
        """Whether the norm is for replace neighbours."""
        return self.neighbours is Neighbours.REPLACE

    @property
    def relation(self) -> Relation:
        """The relation, in the words of the solvers."""
        return "replace" if self.replace else "add-remove"


def _start(value: Any) -> Strategy:
    """A strategy of the caller's.

    Raises:
        InvalidInputError: something else; a name too, as that is of one for some workload.
    """
    try:
        if not isinstance(value, str):
            return without_participation(as_strategy(value))
    except InvalidInputError as error:
        raise InvalidInputError(f"start: {error}") from None
    raise InvalidInputError(
        f"start must be a strategy, a design or a matrix, got {shown(value)}; of a name"
        " pmldesign.baseline makes one"
    )


def takes_options(function: Function) -> Function:
    """Show the attributes of DesignOptions in the signature of a function of `**options`.

    Unknown names are refused as by `named_arguments`.
    """
    signature = inspect.signature(function)
    *others, _ = signature.parameters.values()
    options = inspect.signature(DesignOptions).parameters.values()
    keywords = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    function.__signature__ = signature.replace(parameters=[*others, *keywords])  # type: ignore[attr-defined]
    return named_arguments(function)
