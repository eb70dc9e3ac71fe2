"""Strategies for fixed epochs: X = sum_k c_k (G^-1 + s_k^2 W)^-1, G = A^T A of running sums.

W is block diagonal over the classes of steps that are b apart (`participation.epochs` in the
solvers). Sensitivity and variances follow from its blocks in O(n m^2 K). With S = A^-T W^-1 A^-1
and g(x) = 1 / (x r(x)) = d + e_0 / x + sum_j e_j / (x + z_j^2),

    A X^-1 A^T = g(S),     (S + z^2)^-1 = (1 - A^-T Y A^-1) / z^2,     Y = (G^-1 + z^2 W)^-1,

whose diagonal needs only neighbouring entries of Y, as A^-1 is bidiagonal. R = C is the lower
triangular factor of X, made when it is asked for, and then scaled down by the factor by which its
measured sensitivity exceeds that of the blocks.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import UNIT, raised
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.online import is_triangular, sums_of
from pmldesign.strategies.participation.schema import Participation
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.running import is_same_sums
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation.epochs import (
    Epochs,
    full_gram,
    neighbouring_entries,
    resolvent_blocks,
)
from pmldesign_solvers.participation.fixed_epochs import raised_sensitivity, variance_sum
from pmldesign_solvers.participation.patterns import class_grams, largest_window
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.nodes import Nodes


class EpochStrategy(Strategy):
    """A strategy for running sums of people who take part in fixed epochs, n <= k b.

    Args:
        name: how tables and messages call it.
        sums: the running sums A, over n steps.
        participation: k steps, exactly b apart.
        weights: W_c, shape (b, m, m), m = ceil(n / b).
        nodes: s_k and c_k.

    Raises:
        InvalidInputError: arrays of another shape, or invalid weights.
    """

    regular: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        sums: RunningSums,
        participation: Participation,
        weights: Array,
        nodes: Nodes,
    ) -> None:
        self.name, self.sums, self.designed_for = name, sums, participation
        self.epochs = Epochs(sums, participation.apart)
        self.weights, self.nodes = read_only(np.array(weights)), nodes
        self.shape = sums.cells, sums.cells
        b, m = participation.apart, self.epochs.members
        if not participation.fixed or m > participation.times:
            raise InvalidInputError(f"strategy {name!r} is for fixed epochs that cover all steps")
        positive = (nodes.poles > 0).all() and (nodes.weights > 0).all()
        finite = np.isfinite(self.weights).all() and np.isfinite(nodes.poles).all()
        if self.weights.shape != (b, m, m) or not (positive and finite):
            raise InvalidInputError(
                f"strategy {name!r}: weights must be {b} matrices of {m} x {m} finite numbers and"
                f" nodes positive, got weights of shape {self.weights.shape}"
            )

    @cached_property
    def _blocks(self) -> Array:
        """The diagonal blocks X_cc of C^T C, one for each class of steps, shape (b, m, m)."""
        return resolvent_blocks(self.epochs, self.weights, self.nodes)

    @cached_property
    def epoch_sensitivity(self) -> float:
        """Under its own participation: the root of the largest sum of abs(X_cc)."""
        square = float(np.abs(self._blocks).sum(axis=(1, 2)).max())
        return raised(math.sqrt(raised_sensitivity(self.epochs, square)), 4)

    @cached_property
    def matrix(self) -> Array:
        """C, shape (n, n), if it is not too large to be materialized."""
        n = self.cells
        check_entries(f"strategy {self.name!r}", self.shape)
        gram = full_gram(self.epochs, self.weights, self.nodes)
        try:
            upper = scipy.linalg.cholesky(gram[::-1, ::-1], overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            raise InvalidInputError(
                f"strategy {self.name!r} is singular to working precision"
            ) from None
        factor = np.ascontiguousarray(upper[::-1, ::-1])
        grams = class_grams(factor, self.designed_for.apart)
        square = largest_window(grams, self.designed_for.times)
        square += 1.1 * (n + 8) * UNIT * n  # of columns at most 1 long, k b of them
        measured = raised(math.sqrt(square), 8)
        return read_only(factor * min(1.0, self.epoch_sensitivity / measured))

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        inverse = scipy.linalg.solve_triangular(self.matrix, np.eye(self.cells), lower=True)
        return read_only(inverse), self.cells

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        if not is_same_sums(workload, self.sums):
            return super().variances(workload)
        return self.sums_variances

    @cached_property
    def sums_variances(self) -> Array:
        """The variances of the running sums that it is made for, shape (n,)."""
        reciprocal = self.nodes.reciprocal()
        terms = reciprocal.weights / reciprocal.poles**2
        nodes = Nodes(reciprocal.poles, terms)
        blocks = resolvent_blocks(self.epochs, self.weights, nodes)
        beside = neighbouring_entries(self.epochs, self.weights, nodes)
        queries, steps = np.sqrt(self.sums.query_squares), np.sqrt(self.sums.step_squares)
        between = steps[1:] * queries[:-1]
        row_edges, after = 1.0 / (queries * steps), self.sums.rates / between
        diagonal = self.epochs.by_step(np.einsum("cee->ce", blocks))
        explained = row_edges**2 * diagonal
        explained[:-1] += after**2 * diagonal[1:] - 2.0 * row_edges[:-1] * after * beside
        rest = reciprocal.constant + terms.sum() - explained
        return np.asarray(rest + reciprocal.origin * self.epochs.row_norms(self.weights))

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """The sum of the variances of its own running sums."""
        if power != 1 or not is_same_sums(workload, self.sums):
            return None
        return self._variance_sum

    @cached_property
    def _variance_sum(self) -> float:
        return variance_sum(self.epochs, self.weights, self.nodes)[0]

    def scaled(self, factor: float) -> EpochStrategy:
        """The strategy times a positive number."""
        nodes = Nodes(self.nodes.poles, self.nodes.weights * factor**2)
        return EpochStrategy(self.name, self.sums, self.designed_for, self.weights, nodes)

    def normalised(self) -> EpochStrategy:
        """The same strategy scaled to sensitivity 1 under its own participation."""
        return self.scaled(1.0 / self.epoch_sensitivity)


@sums_of.register
def _(strategy: EpochStrategy) -> tuple[RunningSums, Array]:
    """The running sums that it is made for, and their variances."""
    return strategy.sums, strategy.sums_variances


@is_triangular.register
def _(strategy: EpochStrategy) -> bool:  # noqa: ARG001
    """All of them are."""
    return True
