"""The types that callers may pass as a strategy, for type checkers; `as_strategy` takes all."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from pmldesign.strategies.base import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.accepted import Matrix


class HasStrategy(Protocol):
    """A design, a mechanism, or a result of `optimize` or `least_budget`."""

    @property
    def strategy(self) -> Strategy:
        """R, whose rows are the measurements."""


StrategyLike: TypeAlias = Strategy | HasStrategy | Workload | str | Matrix
"""A strategy, an object that has one, a name, or a matrix."""
