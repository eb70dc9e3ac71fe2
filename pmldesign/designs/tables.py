r"""Designs for tables that cross attributes, over domains of any size.

Under add-remove the solver's strategy and bounds (`pmldesign_solvers.tables`). Under replace the
strategy without the total, which is public (`strategies.tables`), or for p > 2 that for add-remove
if it is better; and the lower bound that follows from the dual weights for add-remove.

Tables that may overlap are each measured by a matrix of their own, with the solver's lower bound
(`pmldesign_solvers.joint`); the strategy's own upper bound is recomputed, for the requested
neighbours.

Tables over single attributes are exact under replace, each by itself. Two records differ in
every attribute as they like, and the total is public. Strategies R_i of the attributes, of l2
sensitivity 1, together with weights s_i of sum 1 have the squared sensitivity sum_i s_i = 1, and
table i has the error g_i / s_i^(1/2) for the norm g_i = c_i gamma_(p)(A_i). Best
is s_i in proportion to g_i^a, a = 2p/(p + 2):

    gamma_(p) = (sum_i g_i^a)^(1/a).

No strategy does better: pairs of cells that differ in all attributes, in each one by its own
weights of pairs and in either direction alike, have a Laplacian whose blocks between two attributes
vanish, so that the nuclear norm of the tables is the sum of theirs; with weights of tables in
proportion to g_i^(2a - 2) that is the same number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from pmldesign.designs.one_matrix import solve_matrix
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import SUM_ROUNDING, Design, as_design, as_invalid_input, evaluated
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.tables.matrices import TableMatricesStrategy
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads import Workload, as_terms
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.ranges import CountsWorkload, asks_counts
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.joint import solve as joint
from pmldesign_solvers.limits import JOINT_CELLS
from pmldesign_solvers.norm.solution import Outcome, Status
from pmldesign_solvers.operators.operator import EPS, TINY, Array, dual_norm, power_mean
from pmldesign_solvers.tables import lower as pairs
from pmldesign_solvers.tables import solve as tables
from pmldesign_solvers.tables.free_vector import Coordinates, Measured
from pmldesign_solvers.tables.query_weights import Question

MOST_VALUES = 2048
"""Of an attribute: it is solved as one matrix."""
FAINT = 1e-9
"""Part of the largest eigenvalue below which values of an attribute are not distinguished."""


def is_separate(asked: Question) -> bool:
    """Whether each attribute is asked about by itself, once."""
    sizes = [asked.sizes[asked.attribute[k]] for table in asked.tables for k in table]
    every = [k for table in asked.tables for k in table]
    once = len(set(every)) == len(every) and asked.uniform
    single = once and all(len(table) <= 1 for table in asked.tables)
    return single and max(sizes, default=0) <= MOST_VALUES and max(sizes, default=1) > 1


def separate_strategy(
    asked: Question, p: float, options: DesignOptions
) -> tuple[TablesStrategy, Outcome] | None:
    """The best strategy under replace; None if some queries do not distinguish all values.

    The dual weights are those of the queries of all tables, and of the pairs of values (n x n, row
    by row) of the attributes in the order of the tables. The certificate is that of the norms.
    """
    numbers = [
        (t, table[0])
        for t, table in enumerate(asked.tables)
        if table and asked.sizes[asked.attribute[table[0]]] > 1
    ]
    share = replace(options, rel_gap=options.rel_gap / 2)
    designs = [solve_matrix(_queries(asked, k), p, share) for _, k in numbers]
    grams = [_centred(design.strategy) for design in designs]
    if any(gram is None for gram in grams):
        return None
    a = 2.0 if math.isinf(p) else 2 * p / (p + 2)
    scales = asked.scales[[t for t, _ in numbers]]
    lower = scales * [design.certificate.lower for design in designs]
    upper = scales * [design.certificate.upper for design in designs]
    shares = (upper / upper.max()) ** a
    shares /= shares.sum()
    coordinates, precisions = {}, {}
    for (_, k), gram, part in zip(numbers, grams, shares.tolist(), strict=True):
        i, n = asked.attribute[k], asked.sizes[asked.attribute[k]]
        if asked.factors[k] is None:  # all contrasts are equal, by symmetry
            precisions[i,] = part * (n - 1) / (2 * n)
        else:
            assert gram is not None
            coordinates[i], square = _measured(gram)
            precisions[i,] = part * square
    strategy = TablesStrategy(
        "design", asked.sizes, precisions, [*precisions.values()], coordinates, public=RECORDS
    )
    tables = np.maximum(lower / lower.max(), TINY) ** (2 * a - 2)
    tables /= dual_norm(tables, p)
    of_table = {
        t: u * design.dual_u for (t, _), u, design in zip(numbers, tables, designs, strict=True)
    }
    outcome = Outcome(
        dual_u=np.concatenate([of_table.get(t, np.zeros(1)) for t in range(len(asked.tables))]),
        dual_w=np.concatenate([design.dual_w.ravel() for design in designs]),
        certificate=Certificate(
            power_mean(lower, a) * (1 - (len(numbers) + 8) * EPS), power_mean(upper, a)
        ),
        status=next((d.status for d in designs if d.status is not Status.OPTIMAL), Status.OPTIMAL),
        steps=sum(design.steps for design in designs),
        eigendecompositions=sum(design.eigendecompositions for design in designs),
        seconds=sum(design.seconds for design in designs),
    )
    return strategy, outcome


def _queries(asked: Question, k: int) -> Workload:
    """The queries of a factor."""
    factor = asked.factors[k]
    if factor is None:
        return CountsWorkload(asked.sizes[asked.attribute[k]])
    assert isinstance(factor, Workload)
    return factor


def _centred(strategy: Strategy) -> tuple[Array, Array] | None:
    """Eigenvalues, all but that of the constant vector, and vectors of P R^T R P."""
    centred = strategy.matrix - strategy.matrix.mean(axis=1, keepdims=True)
    _, singular, rows = np.linalg.svd(centred, full_matrices=False)
    kept = singular[: strategy.cells - 1]
    if len(kept) < strategy.cells - 1 or kept[-1] ** 2 <= FAINT * kept[0] ** 2:
        return None
    return kept, rows[: len(kept)]


def _measured(parts: tuple[Array, Array]) -> tuple[Measured, float]:
    """Y whose longest column is 1, and what Y^T Y is to be multiplied by."""
    singular, vectors = parts
    rows = singular[:, None] * vectors
    square = float((rows**2).sum(axis=0).max())
    n, root = rows.shape[1], math.sqrt(square)
    inverse = np.column_stack([np.full(n, 1 / n), vectors.T * (root / singular)])
    return Measured(rows / root, inverse), square


def question(workload: Workload) -> Question | None:
    """The problem for a solver; None for queries on one attribute, or that join several."""
    terms = as_terms(workload)
    if not terms.crossed or len(terms.domain) == 1:
        return None
    ways = [terms.ways.get((i,), []) for i in range(len(terms.domain))]
    first = [0, *accumulate(map(len, ways))]
    plain = [all(map(asks_counts, queries)) for queries in ways]
    return Question(
        terms.domain,
        tuple(i for i, queries in enumerate(ways) for _ in queries),
        tuple(None if plain[i] else q for i, queries in enumerate(ways) for q in queries),
        tuple(tuple(first[i] + way for (i,), way in kind) for kind in terms.kinds),
        terms.weights,
    )


def solve_counts(
    workload: Workload,
    sizes: Sequence[int],
    subsets: Sequence[tuple[int, ...]],
    weights: Array,
    p: float,
    options: DesignOptions,
) -> Design:
    """The optimal contrasts for tables of counts, each with a weight.

    Args:
        workload: the tables.
        sizes: number of values of each attribute.
        subsets: the attributes of each table.
        weights: of each table.
        p: in [2, inf].
        options: of the design.
    """
    from pmldesign_solvers.norm.marginals import solve_marginals

    with as_invalid_input(workload):
        solution = solve_marginals(
            sizes, subsets, weights, p, relation=options.relation, options=options.stopping
        )
    strategy = TablesStrategy("design", sizes, solution.residuals, solution.precisions)
    return as_design(workload, p, options, strategy, solution)


def solve_tables(workload: Workload, asked: Question, p: float, options: DesignOptions) -> Design:
    """The best strategy for some tables, and its bounds."""
    if all(factor is None for factor in asked.factors):
        subsets = [tuple(asked.attribute[k] for k in table) for table in asked.tables]
        return solve_counts(workload, asked.sizes, subsets, asked.scales, p, options)
    if not options.replace:
        with as_invalid_input(workload):
            solution = tables.solve(asked, p, options=options.stopping)
        return as_design(workload, p, options, _strategy(asked, solution.strategy), solution)
    best = _public(workload, asked, p, options)
    over = options.stopping.deadline.over()
    if p == 2 or best.certificate.gap <= options.rel_gap or over:
        return best
    plain = replace(options, neighbours=Neighbours.ADD_REMOVE)
    single = solve_tables(workload, asked, p, plain)
    measured = single.strategy.beside(RECORDS)
    other = _under_replace(workload, single, measured, best.certificate.lower, p, options)
    if other.certificate.upper >= best.certificate.upper:
        return best
    return replace(best, strategy=other.strategy, certificate=other.certificate)


def _public(workload: Workload, asked: Question, p: float, options: DesignOptions) -> Design:
    """The best strategy if the total is public."""
    if is_separate(asked):
        separate = separate_strategy(asked, p, options)
        if separate is not None:
            strategy, outcome = separate
            best = as_design(workload, p, options, strategy, outcome)
            return _under_replace(workload, best, strategy, best.certificate.lower, p, options)
    with as_invalid_input(workload):
        solution = tables.solve(asked, p, total=False, options=options.stopping)
    strategy = _strategy(asked, solution.strategy)
    solved = as_design(workload, p, options, strategy, solution)
    lower = pairs.lower_bound(solution.problem, solution.cell_weights)
    public = strategy if solution.public is None else _strategy(asked, solution.public)
    return _under_replace(workload, solved, public.beside(RECORDS), lower, p, options)


def _strategy(asked: Question, design: Coordinates) -> TablesStrategy:
    return TablesStrategy("design", asked.sizes, design.sets, design.precisions, design.attributes)


def _under_replace(
    workload: Workload,
    design: Design,
    public: Strategy,
    lower: float,
    p: float,
    options: DesignOptions,
) -> Design:
    """The design with its bounds if the total is public.

    Args:
        workload: the queries.
        design: with its strategy and bounds for add-remove neighbours, or separate ones.
        public: its strategy without the total.
        lower: a certified lower bound.
        p: in [2, inf].
        options: of the design.
    """
    centred = given_invariants(workload, RECORDS)
    sensitivity = public.sensitivity_under(Neighbours.REPLACE, "l2")
    power = public.norm_by_structure(centred, p / 2)
    if power is None:
        raise InvalidInputError(f"workload {workload.name!r} is no union of products")
    rest = design.certificate.upper - design.certificate.lower if not power else 0.0
    upper = math.sqrt(power) * sensitivity * (1 + SUM_ROUNDING) + rest
    certificate = Certificate(lower, upper + SUM_ROUNDING * design.certificate.upper)
    return evaluated(design, public.scaled(1 / sensitivity), certificate, options)


def joint_question(workload: Workload) -> joint.JointQuestion | None:
    """The problem for the solver; None for other workloads, or tables that are too large."""
    terms = as_terms(workload)
    if not joint.affordable(terms.domain, terms.subsets):
        return None
    check_entries(f"the queries of {workload.name}", (workload.shape[0], JOINT_CELLS))
    return joint.JointQuestion.of(
        terms.domain, [(term.attributes, term.dense()) for term in terms.terms]
    )


def solve_joined(workload: Workload, p: float, options: DesignOptions) -> Design:
    """A matrix for each table, and its bounds.

    Raises:
        InvalidInputError: tables that are too large, or nothing but the total under replace.
    """
    question = joint_question(workload)
    if question is None:
        raise InvalidInputError(
            f"{workload.name!r} has tables that overlap or come twice: they may have {JOINT_CELLS}"
            " cells each, and together as many as all pairs of 41 attributes of 10 values; ask for"
            " fewer values or attributes together"
        )
    if options.replace and not any(question.tables):
        raise InvalidInputError(
            f"workload {workload.name!r}: it asks for nothing but the total, which is public under "
            "replace; take add-remove neighbours to protect the total"
        )
    with as_invalid_input(workload):
        solution = joint.solve(question, p, total=not options.replace, options=options.stopping)
    strategy = TableMatricesStrategy("design", question.sizes, question.tables, solution.rows)
    design = as_design(workload, p, options, strategy, solution)
    public = RECORDS if options.replace else None
    measured = strategy.beside(RECORDS) if public else strategy
    length = measured.sensitivity_under(options.neighbours, "l2")
    asked = given_invariants(workload, RECORDS) if public else workload
    spread = math.sqrt(measured.variance_norm(asked, p / 2))
    certificate = Certificate(solution.certificate.lower, spread * length * (1 + SUM_ROUNDING))
    return replace(
        evaluated(design, measured.scaled(1 / length), certificate, options),
        dual_factors=design.dual_factors,
    )
