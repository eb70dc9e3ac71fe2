r"""The design for counts and tables of regions that nest, each with a weight of its own.

The lower bound is that of the dual (`pmldesign_solvers.trees`), found together with a matrix that
attains it (`Design.optimum`), which is not returned: the strategy returned measures every region by
a count of its own, in integers, and is within 0.01 to 0.6% of the bound at p up to 4 if all
regions of a level have equal weights. Ordered attributes are measured in coordinates of their own,
and bounds need not meet.

Ordered attributes. Each has one set of queries A_i wherever a table asks about it. Its coordinates
are those of a strategy for tables without regions (`pmldesign_solvers.tables.free_vector`), in
which the table over T counts as much as the answers at all regions together, by the best shares of
whole levels. The lower bound has weights of cells that are products of those of places and of
values. With N = (W^(1/2) A^T U A W^(1/2))^(1/2) of an attribute and r = w^(1/2), cutting along r on
both sides does not raise a nuclear norm, so that

    gamma >= sum_S d_S tr (W^(1/2) sum_nu sum_{T holds S} u a^2 prod_{i in T on S} h_i
                           prod_{i in T off S} t_i 1_nu 1_nu^T W^(1/2))^(1/2),
    t = (r^T N r)^2,   h = (tr N - r^T N r)^2,

d_S only over plain attributes: again a tree for each S. Rounding of the N is taken off as for
tables (`pmldesign_solvers.tables.lower`): the contribution of a table is at most the bound.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.designs.one_matrix import solve_matrix
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design, as_design, as_invalid_input, evaluated
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import raised
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.nested import (
    OrbitCounts,
    cells_alone,
    known_places,
    of_weights,
    ordered_tables,
)
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.limits import DENSE_CELLS, REGION_CELLS_AT_INF
from pmldesign_solvers.operators.operator import EPS, TINY, Array, Flags, dual_norm, power_mean
from pmldesign_solvers.tables import free_vector
from pmldesign_solvers.tables.frames import frame, root_of
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.query_weights import Question, weighted
from pmldesign_solvers.trees.shares import Shares
from pmldesign_solvers.trees.sweeps import swept

if TYPE_CHECKING:
    from pmldesign.workloads.nested.tables import RegionTablesWorkload


NUMBER_ROUNDING = 1e-11
"""Relative, of t and h."""
LOOSE = 0.01
"""Gap of counts or tables of regions from which on one matrix of up to DENSE_CELLS cells is tried:
trees of ten levels and more, weights that differ from place to place, many tables, and p = inf."""
STEPS = 60
"""Of the descent of weights: on 324,000 regions this many gain all but 0.002%."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderedAttributes:
    """The designs of the ordered attributes of tables at regions.

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
        """The parts of all values of each attribute other than places, sum 1."""
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
        found.measured[i] = Measured.of(point.grams[i])
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


def solve_nested(workload: NestedWorkload, p: float, options: DesignOptions) -> Design:
    """A count for each region, or one matrix if that is far from its bound."""
    design = solve_regions(workload, p, options)
    small = workload.shape[1] <= (REGION_CELLS_AT_INF if math.isinf(p) else DENSE_CELLS)
    close = design.certificate.gap <= max(LOOSE, options.rel_gap)
    if close or not small or options.replace or options.stopping.deadline.over():
        return design
    return design.join(solve_matrix(workload, p, options), options)


def solve_regions(
    workload: NestedWorkload, p: float, options: DesignOptions, public: Public = NOTHING
) -> Design:
    """Weights of all counts, and both bounds.

    Args:
        workload: the queries.
        p: in [2, inf].
        options: of the design.
        public: the invariants, for neighbours under replace.

    Raises:
        InvalidInputError: buffers, a method other than scaling, or only public queries.
    """
    from pmldesign_solvers.streams.solve import solve

    begin, deadline = time.perf_counter(), options.stopping.deadline
    public = RECORDS if options.replace and not public else public
    known = known_places(workload, public)
    if not workload.open_scales(known).any():
        raise InvalidInputError(
            f"workload {workload.name!r}: the known answers {public.name or 'total'!r} answer all"
            " of its queries; ask for places below, or give known answers that tell less"
        )
    found = deadline.completed(lambda: ordered_attributes(workload, p, options, known))
    counts = OrbitCounts(workload, known)
    problem = counts.problem(p, found.numbers)
    with as_invalid_input(workload):
        solution = solve(problem, p, options=options.stopping)
    lower = solution.certificate.lower * found.trusted
    if public:
        concentration = math.prod(float(cells @ cells) for cells in found.of_cells(workload))
        pairs = problem.pairs(solution.dual_w / solution.dual_w.sum(), concentration)
        lower /= math.sqrt(pairs) * (1 + 4 * EPS)

    search = counts.shares(p, ordered=found.measured)
    shares = deadline.completed(lambda: search.best(lambda: not deadline.over(), steps=STEPS))
    weights = counts.weights(shares)
    candidates = [of_weights("design", workload, weights, found.measured, public)]
    if found.measured:
        candidates.append(cells_alone(workload, public))
    normalised = [strategy.normalised() for strategy in candidates]
    duals = problem, solution.dual_u, solution.dual_w
    u, w = counts.duals(p, *duals, queries=found.queries, cells=found.cells)
    upper, strategy = min(
        ((_value(workload, tried, p, public), tried) for tried in normalised),
        key=lambda pair: pair[0],
    )
    asked = given_invariants(workload, public) if public.name else workload
    design = replace(as_design(asked, p, options, strategy, solution), dual_factors=((u, w),))
    design = replace(design, seconds=time.perf_counter() - begin)
    if not public and not found.numbers and solution.certificate.upper < upper:
        design = replace(design, optimum=solution.certificate.upper)
    return evaluated(design, strategy, Certificate(lower, upper), options)


def _value(workload: NestedWorkload, strategy: Strategy, p: float, public: Public) -> float:
    """The norm of a strategy; its variances are sums of positive numbers."""
    relation = Neighbours.REPLACE if public else Neighbours.ADD_REMOVE
    pair = Factorization(given_invariants(workload, public), strategy.beside(public), relation)
    rows, cells = workload.shape
    return raised(pair.norm(p), 64 + 24 * math.ceil(math.log2(rows + cells + 2)) ** 2)
