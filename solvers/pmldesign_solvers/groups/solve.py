"""gamma_(p)(A) where the number of records in every group of cells is public.

The interior point method of `norm`, on the pairs of cells of each group. With a single group this
is the norm for replace neighbours.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial

import numpy as np

from pmldesign_solvers.groups.problem import GroupedWorkload
from pmldesign_solvers.norm.bounds_loop import Search, in_units_of
from pmldesign_solvers.norm.options import DEFAULTS, SolverOptions
from pmldesign_solvers.norm.solution import Solution
from pmldesign_solvers.norm.solve import MAX_PAIRS, certified_solution, interior_candidates
from pmldesign_solvers.operators.operator import Array, Indices


def solve_groups(
    matrix: Array, groups: Indices, p: float, *, options: SolverOptions = DEFAULTS
) -> Solution:
    """Compute gamma_(p)(A) for neighbours within groups, with the factorization that attains it.

    Args:
        matrix: A, shape (m, n).
        groups: shape (n,), the number of the group of each cell, from 0 without gaps.
        p: in [2, inf].
        options: when to stop.

    Returns:
        The best factors and dual weights found, with their true gap, whatever the status; the
        weights of pairs as a symmetric matrix, shape (n, n).

    Raises:
        ValueError: the known numbers answer every query, or too many pairs.
    """
    start = time.perf_counter()
    exponent = math.frexp(float(np.abs(matrix).max()))[1]
    problem = GroupedWorkload(np.ldexp(matrix, -exponent), groups)
    if problem.pairs.count > MAX_PAIRS:
        raise ValueError(
            f"its groups have {problem.pairs.count} pairs of distinct cells, more than the"
            f" {MAX_PAIRS} that can be weighed; take fewer cells, or more known answers"
        )
    candidates = interior_candidates(problem, problem, problem.pairs, p)
    callback = in_units_of(exponent, options.callback)
    search = Search(candidates, replace(options, callback=callback), start)
    certify = partial(problem.certify, p=p)
    solution = certified_solution(search, certify, p, exponent, options.rel_gap)
    return replace(solution, eigendecompositions=problem.decompositions)
