"""Strategies for tables made from a point of the fixed point, with their certified values.

Couplings on features, or none and the weights of sets that are best at p = inf or where the total
is public and records are replaced (`couplings`, `even_weights`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import scipy

from pmldesign_solvers.tables import apart, couplings, even_weights
from pmldesign_solvers.tables.couplings import Coupled
from pmldesign_solvers.tables.free_vector import FreeVector
from pmldesign_solvers.tables.problem import Attributes, Tables
from pmldesign_solvers.tables.query_weights import Question
from pmldesign_solvers.tables.upper_bound import upper_bound
from pmldesign_solvers.tables.variances import Asked, asked_plain
from pmldesign_solvers.tables.variances import asked as asked_ordered

COUPLING_STEPS = 400
"""Of L-BFGS."""


class Candidates:
    """Strategies that measure the same of each attribute.

    Args:
        question: what is asked.
        problem: that of p = 2 with the weights of the queries.
        p: in [2, inf].
        start: what is measured of each attribute.
        proceed: asked after every step of a search; where it says no, what there is counts.
        ask: raises an error where couplings are to be given up, as for `couplings.solve`.
    """

    def __init__(
        self,
        question: Question,
        problem: Tables,
        p: float,
        start: FreeVector,
        proceed: Callable[[], bool],
        ask: Callable[[float], None],
    ) -> None:
        self._question, self.problem, self.p = question, problem, p
        self.start, self._proceed, self._ask = start, proceed, ask

    def coupled(self, features: Mapping[int, int]) -> tuple[float, Coupled]:
        """The best strategy with these features, and its certified value."""
        asked = {"ask": self._ask} if any(features.values()) else {}  # a first one is always found
        strategy = couplings.solve(
            self.problem,
            self.start,
            features,
            steps=COUPLING_STEPS,
            proceed=self._proceed,
            **asked,
        )
        return self._value(strategy, self._asked(strategy)), strategy

    def even(self, strategy: Coupled) -> tuple[float, Coupled]:
        """A strategy without couplings, with the best weights of sets where p is inf."""
        asked, sets = self._asked(strategy), self.problem.spaces.residuals
        weights = even_weights.even_weights(self._rows(asked, sets), proceed=self._proceed)
        sectors = even_weights.as_sectors(sets, weights, strategy.attributes)
        strategy = replace(strategy, sectors=sectors)
        return self._value(strategy, asked), strategy

    def public_total(self, strategy: Coupled, *, search: bool) -> Coupled:
        """A strategy without couplings and total, with the best weights of sets under replace.

        Args:
            strategy: what it measures of each attribute.
            search: whether to look for something better to measure.
        """
        sets = [s for s in self.problem.spaces.residuals if s]
        attributes, squares = strategy.attributes, self.start.value.roots[-len(sets) :] ** 2
        if attributes and search:
            attributes, squares = apart.best(self.problem, attributes, proceed=self._proceed)
            strategy = replace(strategy, attributes=attributes)
        rows = scipy.sparse.csr_matrix(squares)
        if math.isinf(self.p):
            rows = self._rows(self._asked(strategy), sets)
        lengths = even_weights.length_rows(self._least(strategy), sets)
        weights = even_weights.even_weights(rows, lengths, proceed=self._proceed)
        return replace(strategy, sectors=even_weights.as_sectors(sets, weights, attributes))

    def _rows(self, asked: list[Asked], sets: Sequence[Attributes]) -> scipy.sparse.csr_matrix:
        """The variances of extreme queries, a column for each set."""
        return even_weights.variance_rows(
            [even_weights.extreme_queries(queries.numbers) for queries in asked],
            self._question.attribute,
            self._question.tables,
            self._question.scales,
            {s: place for place, s in enumerate(sets)},
        )

    def _least(self, strategy: Coupled) -> dict[int, float]:
        """The least entry of X0_i of each attribute."""
        least = {i: -1 / (n - 1) for i, n in enumerate(self.problem.sizes) if n > 1}
        for i, measured in strategy.attributes.items():
            least[i] = float((measured.rows.T @ measured.rows).min())
        return {i: least[i] for i in self.problem.factors if i in least}

    def _asked(self, strategy: Coupled) -> list[Asked]:
        """The numbers of all factors' queries."""
        return [
            asked_ordered(i, operator, strategy.attributes[i], strategy.features[i])
            if i in strategy.attributes and operator is not None
            else asked_plain(i, self._question.sizes[i], operator)
            for i, operator in zip(self._question.attribute, self._question.factors, strict=True)
        ]

    def _value(self, strategy: Coupled, asked: list[Asked]) -> float:
        """Certified upper bound on the norm."""
        return upper_bound(strategy, asked, self._question, self.p)
