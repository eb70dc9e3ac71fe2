r"""Ordered attributes beside regions that nest: coordinates to measure, and numbers of a bound.

Each attribute has one set of queries A_i wherever a table asks about it. Its coordinates are those
of a strategy for tables without regions (`pmldesign_solvers.tables.free_vector`), in which the
table over T counts as much as the answers at all regions together, by the best shares of whole
levels. The lower bound has weights of cells that are products of those of places and of values.
With N = (W^(1/2) A^T U A W^(1/2))^(1/2) of an attribute and r = w^(1/2), cutting along r on both
sides does not raise a nuclear norm, so that

    gamma >= sum_S d_S tr (W^(1/2) sum_nu sum_{T holds S} u a^2 prod_{i in T on S} h_i
                           prod_{i in T off S} t_i 1_nu 1_nu^T W^(1/2))^(1/2),
    t = (r^T N r)^2,   h = (tr N - r^T N r)^2,

d_S over plain attributes alone: again a tree for each S. Rounding of the N is taken off as for
tables (`pmldesign_solvers.tables.lower.dual_weights`): what a table adds is at most the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.designs.one_matrix import as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.strategies.baselines.nested import ordered_tables
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign_solvers.operators.norms import dual_norm, power_mean
from pmldesign_solvers.operators.operator import TINY, Array
from pmldesign_solvers.tables import free_vector
from pmldesign_solvers.tables.lower.frames import frame, root_of
from pmldesign_solvers.tables.measured import Measured, measured
from pmldesign_solvers.tables.query_weights import Question, weighted
from pmldesign_solvers.trees.shares import Shares
from pmldesign_solvers.trees.sweeps import swept
from pmldesign_solvers.trees.tree import Flags

if TYPE_CHECKING:
    from pmldesign.workloads.nested.tables import RegionTablesWorkload

NUMBER_ROUNDING = 1e-11
"""Relative, of t and h."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderedAttributes:
    """What is found for the ordered attributes of tables at regions.

    Attributes:
        measured: coordinates of each.
        queries: weights u of its queries, of norm 1 in the dual of p.
        cells: weights w of its values, sum 1.
        numbers: t and h of each.
        trusted: what part of the lower bound rounding leaves.
    """

    measured: dict[int, Measured] = field(default_factory=dict)
    queries: dict[int, Array] = field(default_factory=dict)
    cells: dict[int, Array] = field(default_factory=dict)
    numbers: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    trusted: float = 1.0

    def of_cells(self, workload: NestedWorkload) -> list[Array]:
        """The parts of all values of each attribute beside places, sum 1."""
        values = workload.shape[1] // workload.tree.cells
        known = math.prod(len(cells) for cells in self.cells.values())
        return [np.full(values // known, known / values), *self.cells.values()]


def ordered_attributes(
    workload: NestedWorkload, p: float, options: DesignOptions, known: Flags | None = None
) -> OrderedAttributes:
    """Coordinates, dual weights and numbers of all ordered attributes; sums may be public."""
    tables = ordered_tables(workload)
    return OrderedAttributes() if tables is None else _found(tables, p, options, known)


def _found(
    workload: RegionTablesWorkload, p: float, options: DesignOptions, known: Flags | None
) -> OrderedAttributes:
    used = sorted(set().union(*workload.tables))
    question = Question(
        workload.sizes,
        tuple(used),
        tuple(workload.queries.get(i) for i in used),
        tuple(tuple(used.index(i) for i in table) for table in workload.tables),
        np.sqrt(_shares_of_tables(workload, p, known)),
    )
    with as_invalid_input(workload):
        problem, weights = weighted(question, p, options=options.stopping)
        point = free_vector.best(problem)
    ends = np.cumsum([len(workload.tables), *(workload.asked_of(i) for i in problem.ordered)])
    found, off = OrderedAttributes(), 0.0
    for number, i in enumerate(problem.ordered):
        gram = np.asarray(problem.grams[used.index(i)])
        u = weights[ends[number] : ends[number + 1]] if p > 2 else np.ones(workload.asked_of(i))
        r = np.sqrt(point.cells[i] / point.cells[i].sum())
        kept = frame([root_of(gram, r)], r, 1)
        nu, rest = float(kept.inner[0][0, 0]), kept.rest[0]
        found.measured[i] = measured(point.grams[i], [gram], [1.0], 0)
        found.queries[i], found.cells[i] = u / dual_norm(u, p), r**2
        found.numbers[i] = np.array([nu**2]), np.array([max(rest, math.sqrt(TINY)) ** 2])
        off += kept.roots[0].off
    trusted = (1 - NUMBER_ROUNDING - 4 * len(workload.tables) * off) / (1 + off) ** len(used)
    return OrderedAttributes(
        found.measured, found.queries, found.cells, found.numbers, max(trusted, 0.0)
    )


def _shares_of_tables(workload: RegionTablesWorkload, p: float, known: Flags | None) -> Array:
    """What every table counts: the (p/2)-norm of a^2 times the variance of each region."""
    squares = workload.open_scales(known) ** 2
    shares = Shares(workload.tree, squares.sum(axis=0), p).best_of_levels()
    variances = swept(workload.tree, shares).variances[workload.tree.place_of_node]
    return np.array([power_mean(row * variances, p / 2) for row in squares])
