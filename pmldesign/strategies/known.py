"""R P: a strategy beside public answers, whose neighbours replace a record within its group.

The sensitivity is the largest distance of two columns of one group (`workloads.known.groups`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours, Norm, sensitivity_above
from pmldesign.strategies.base import Strategy
from pmldesign.workloads import Workload, as_workload
from pmldesign.workloads.known.groups import KnownAnswers
from pmldesign.workloads.known.workload import BESIDE, given_answers
from pmldesign_solvers.operators.operator import Array, Indices

KNOWN_ROWS = 1e-12
"""Rows below this part of what they are without known answers are rounding."""


class BesideAnswers(Strategy):
    """What all strategies beside public answers have in common."""

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, or a bound above it, rounded up.

        Raises:
            InvalidInputError: add-remove neighbours, which have other known answers.
        """
        if neighbours is not Neighbours.REPLACE:
            raise known_refusal(self.known)
        return self._apart(norm)

    def distance_profile(self, norm: Norm) -> None:  # noqa: ARG002
        """None: profiles are for PML, which has no known answers."""
        return

    def normalised(self) -> Strategy:
        """The same strategy scaled to l2 sensitivity 1."""
        return self.scaled(1.0 / self._apart("l2"))

    @abstractmethod
    def _apart(self, norm: Norm) -> float:
        """Largest distance within a group of cells, or a bound above it, rounded up."""


class KnownStrategy(BesideAnswers):
    """R P, the strategy without what public answers tell, written out.

    Args:
        name: as for `Strategy`.
        matrix: R P, shape (r, n).
        answers: what is public.
        inverse: as for `Strategy`.
    """

    def __init__(
        self, name: str, matrix: Array, answers: KnownAnswers, inverse: Array | None = None
    ) -> None:
        super().__init__(name, matrix, inverse)
        self.answers, self.known = answers, answers.name

    def _apart(self, norm: Norm) -> float:
        groups = [cells for cells in self.answers.members if len(cells) > 1]
        return max(
            sensitivity_above(self.matrix[:, cells], Neighbours.REPLACE, norm) for cells in groups
        )

    def scaled(self, factor: float) -> Strategy:
        """R times a positive number."""
        return KnownStrategy(self.name, self.matrix * factor, self.answers)


def within_groups(strategy: Strategy, answers: KnownAnswers) -> Strategy:
    """R P: what a strategy tells beyond the known answers.

    Raises:
        InvalidInputError: it was made for other known answers, or tells nothing else.
    """
    if isinstance(strategy, KnownStrategy):
        if not np.array_equal(strategy.answers.groups, answers.groups):
            raise InvalidInputError(
                f"strategy {strategy.name!r} was made for the known answers {strategy.known!r},"
                f" not for {answers.name!r}"
            )
        return strategy
    matrix = answers.centre(strategy.matrix)
    kept = np.abs(matrix).max(axis=1) > KNOWN_ROWS * np.abs(strategy.matrix).max(axis=1)
    if not kept.any():
        raise InvalidInputError(
            f"strategy {strategy.name!r} measures nothing but the known answers {answers.name!r}"
        )
    return KnownStrategy(strategy.name, matrix[kept], answers)


def members_of(strategy: Strategy) -> list[Indices]:
    """The cells of each group of a strategy beside public answers; nothing for any other."""
    return strategy.answers.members if isinstance(strategy, KnownStrategy) else []


def with_known(
    workload: Any, guarantee: Guarantee | None, known: Any
) -> tuple[Workload, Guarantee | None]:
    """The workload and the guarantee beside public answers.

    Args:
        workload: A, what `as_workload` takes.
        guarantee: of which the neighbours become those that leave the answers as they are.
        known: queries whose answers are public: "total", or what `as_workload` takes; None for
            none.

    Raises:
        InvalidInputError: as `given_answers`, or a guarantee that has no such neighbours.
    """
    queries = as_workload(workload)
    if known is None:
        return queries, guarantee
    queries = given_answers(queries, known)
    return queries, None if guarantee is None else beside_known(guarantee, answers_of(queries))


def beside_known(guarantee: Guarantee, name: str) -> Guarantee:
    """The guarantee for neighbours that leave public answers as they are.

    Args:
        guarantee: any.
        name: of the answers; "" for the number of records alone.

    Raises:
        InvalidInputError: PML, beside more than the number of records.
    """
    if guarantee.pml:
        if name:
            raise InvalidInputError(
                "known answers beside the number of records are for differential privacy; leave"
                " alpha out, or known"
            )
        return guarantee
    changes: dict[str, Any] = {"neighbours": Neighbours.REPLACE, "known": name}
    return replace(guarantee, **changes)


def known_refusal(name: str) -> InvalidInputError:
    """Why known answers go with replaced records alone."""
    return InvalidInputError(
        f"adding or removing a record changes the known answers {name!r}; take neighbours 'replace'"
    )


def answers_of(workload: Workload) -> str:
    """What the public answers beside a workload are called; "" for none."""
    return workload.known.name if isinstance(workload, BESIDE) else ""
