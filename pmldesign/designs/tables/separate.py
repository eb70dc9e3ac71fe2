r"""Tables over single attributes under replace: each attribute by itself, exactly.

Two records differ in every attribute as they like, and the total is public. Strategies R_i of the
attributes, of l2 sensitivity 1, together with weights s_i of sum 1 have the squared sensitivity
sum_i s_i = 1, and table i has the error g_i / s_i^(1/2) for the norm g_i = c_i gamma_(p)(A_i). Best
is s_i in proportion to g_i^a, a = 2p/(p + 2):

    gamma_(p) = (sum_i g_i^a)^(1/a).

No strategy does better: pairs of cells that differ in all attributes, in each one by its own
weights of pairs and in either direction alike, have a Laplacian whose blocks between two attributes
vanish, so that the nuclear norm of the tables is the sum of theirs; with weights of tables in
proportion to g_i^(2a - 2) that is the same number.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pmldesign.designs.one_matrix import solve_matrix
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.products import LEAST_TIME
from pmldesign.designs.results import Design
from pmldesign.strategies import Strategy
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.tables.base import counts_of
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Outcome, Status
from pmldesign_solvers.operators.norms import dual_norm, power_mean
from pmldesign_solvers.operators.operator import EPS, TINY, Array
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.query_weights import Question
from pmldesign_solvers.tables.sectors import Sector

MOST_VALUES = 2048
"""Of an attribute: it is solved as one matrix."""
FAINT = 1e-9
"""Part of the largest eigenvalue below which values of an attribute are not told apart."""


def is_separate(asked: Question) -> bool:
    """Whether each attribute is asked about by itself, once."""
    sizes = [asked.sizes[asked.attribute[k]] for table in asked.tables for k in table]
    single = all(len(table) <= 1 for table in asked.tables) and asked.uniform
    return single and max(sizes, default=0) <= MOST_VALUES and max(sizes, default=1) > 1


def separate_strategy(
    asked: Question, p: float, options: DesignOptions
) -> tuple[TablesStrategy, Outcome] | None:
    """The best strategy under replace; None where some queries do not tell all values apart.

    The dual weights are those of the queries of all tables, and of the pairs of values (n x n, row
    by row) of the attributes in the order of the tables. The certificate is that of the norms.
    """
    numbers = [
        (t, table[0])
        for t, table in enumerate(asked.tables)
        if table and asked.sizes[asked.attribute[table[0]]] > 1
    ]
    limit = None if options.time_limit is None else options.time_limit / len(numbers)
    share = replace(options, rel_gap=options.rel_gap / 2, time_limit=limit)
    designs: list[Design] = []
    for _, k in numbers:
        designs.append(solve_matrix(_queries(asked, k), p, share))
        if designs[-1].status is Status.INTERRUPTED:
            share = replace(share, time_limit=LEAST_TIME)
    grams = [_centred(design.strategy) for design in designs]
    if any(gram is None for gram in grams):
        return None
    a = 2.0 if math.isinf(p) else 2 * p / (p + 2)
    scales = asked.scales[[t for t, _ in numbers]]
    lower = scales * [design.certificate.lower for design in designs]
    upper = scales * [design.certificate.upper for design in designs]
    shares = (upper / upper.max()) ** a
    shares /= shares.sum()
    coordinates, sectors = {}, []
    for (_, k), gram, part in zip(numbers, grams, shares.tolist(), strict=True):
        i, n = asked.attribute[k], asked.sizes[asked.attribute[k]]
        if asked.factors[k] is None:  # all contrasts alike, by symmetry
            sectors.append(Sector((i,), (), ((),), np.array([[part * (n - 1) / (2 * n)]])))
        else:
            assert gram is not None
            coordinates[i], square = _measured(gram)
            sectors.append(Sector((), (i,), ((),), np.array([[part * square]])))
    strategy = TablesStrategy(
        "design", asked.sizes, coordinates, dict.fromkeys(coordinates, 0), sectors
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
    """Those of a factor."""
    factor = asked.factors[k]
    if factor is None:
        return counts_of(asked.sizes[asked.attribute[k]])
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
