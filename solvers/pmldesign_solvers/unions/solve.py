"""gamma_(p) of a union of products that is too large for one matrix: a strategy and both bounds.

Where the parts commute on all attributes but one, whose projections are even, a strategy of blocks
(`block_design`) attains the lower bound of that attribute (`bounds`), and nothing else is
needed.

Upper bound otherwise: a strategy in a product basis (`product_basis`). For each attribute the
eigenvectors of the best Gram matrix for all that is asked about it are one candidate; the total and
the eigenvectors for what differs between the cells are another. The better ones are improved by
descent (`descent`). Lower bound: the best of those that need no matrix of all cells
(`bounds`), and up to UNION_CELLS cells nuclear norms for dual weights that go with a
strategy: both slopes of the first, smoothest descent; or the u among them and the w that its Gram
matrix asks for, at finite p before the first and after the last descent, at p = inf, where u is
that of a smoothed norm, after the first. The bounds do not meet in general.

What has been found so far, and when the search stops, is known by a `UnionSearch`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate, lower_bound
from pmldesign_solvers.limits import MAX_PAIRS, UNION_CELLS
from pmldesign_solvers.norm import fixed_point
from pmldesign_solvers.norm.bounds_loop import BoundsLoop, LimitReachedError, Stages
from pmldesign_solvers.norm.solution import Outcome, Solution, SolverOptions, Status
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.differences import Relation
from pmldesign_solvers.operators.operator import EPS, Array, Operator
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.block_dual import BlockPoint, BlockProblem
from pmldesign_solvers.unions.bounds import exchangeable, free_attribute, whole_unions
from pmldesign_solvers.unions.descent import SHARPNESS, UnionDescended, beginning, descend
from pmldesign_solvers.unions.product_basis import (
    BasisPoint,
    BasisProblem,
    Parts,
    ProductDesign,
    eigenbasis,
    residual_basis,
)

FACTOR_GAP = 1e-3
"""Of the designs for single attributes, which are only a start."""
WEIGHTS_GAP, WEIGHTS_STEPS = 1e-4, 150
"""Of the weights in a product basis."""
CERTIFIED = 0.1
"""The bounds of blocks are certified again when their gap is this part of the last one."""
ROUNDING_PART = 0.01
"""Part of the gap asked for at which bounds that do not meet it are kept apart by rounding."""


@dataclass(slots=True)
class UnionSearch(Stages[ProductDesign | BlockDesign]):
    """The best of either side so far; steps are those of the fixed points.

    Attributes:
        eigendecompositions: of designs for single attributes so far.
        problem, point, reached: the best strategy in a product basis, and its upper bound.
        duals: the weights u and w of the best lower bound.
    """

    eigendecompositions: int = 0
    problem: BasisProblem | None = None
    point: BasisPoint | None = None
    reached: float = math.inf
    duals: tuple[Array, Array] = (np.ones(1), np.ones(1))

    def in_time(self) -> bool:
        """Report the bounds; whether there is anything left to be spent."""
        self.report()
        return self.limit() is None

    def step(self) -> None:
        """Count a step; stop if there is nothing left to be spent on the next."""
        self.steps += 1
        self.report()
        limit = self.limit()
        if limit is not None:
            raise LimitReachedError(limit)

    def factor(self, operator: Operator, p: float, relation: Relation = "add-remove") -> Solution:
        """The design for one attribute of one part, or of all of them."""
        options = SolverOptions(FACTOR_GAP, self.options.max_steps, self.options.deadline)
        solution = solve_norm(operator, p, relation=relation, options=options)
        self.eigendecompositions += solution.eigendecompositions
        return solution

    def weigh(self, problem: BasisProblem) -> float:
        """The best weights for these bases, and their value."""
        best: BasisPoint | None = None
        try:
            for point in problem.points(WEIGHTS_GAP, WEIGHTS_STEPS):
                if best is None or point.upper < best.upper:
                    best = point
                self.step()
        finally:
            if best is not None and best.upper < self.reached:
                upper = problem.upper_bound(best.weights)
                if upper < self.reached:
                    self.reached, self.problem, self.point = upper, problem, best
                self.above(upper, problem.design(best.weights))
        return math.inf if best is None else best.upper

    def attain(self, problem: BlockProblem) -> None:
        """The best strategy of blocks: both bounds, certified whenever the gap is much smaller.

        Raises:
            LimitReachedError: it has to be better than any other, and got no closer for long.
        """
        rel_gap, certified = self.options.rel_gap, math.inf
        enough = rel_gap * (ROUNDING_PART if problem.exact else 1)
        search = BoundsLoop(fixed_point.points(problem))
        try:
            for gap in search.gaps():
                self.eigendecompositions += len(problem.counts)
                if gap <= CERTIFIED * certified or gap <= rel_gap < certified:
                    certified = gap
                    self._certify(problem, search.lower, search.upper)
                self.step()
                if self.done:
                    return
                if gap <= enough:
                    break
        finally:
            if not self.done:
                self._certify(problem, search.lower, search.upper)
        if problem.exact:
            raise LimitReachedError(Status.STALLED)

    def _certify(self, problem: BlockProblem, low: BlockPoint, high: BlockPoint) -> None:
        # the lower bound first: Ctrl-C in between leaves no strategy without one
        self.below(problem.lower_bound(low.u, low.w), *problem.expand(low.u, low.w))
        design = problem.design(high)
        self.above(design.upper_bound(problem.parts, problem.p), design)

    def below(self, value: float, u: Array, w: Array) -> None:
        """A certified lower bound with its dual weights."""
        if value > self.lower:
            self.lower, self.duals = value, (u, w)


BLOCK_GAP, BLOCK_STEPS = 1e-4, 40
"""Of the dual weights on one attribute."""
EXCHANGED_GAIN = 1e-6
"""Of a step, relative, for the next one to be made."""
EVALUATIONS = 600
"""Of the objective of the descent, for each sharpness."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UnionSolution(Outcome):
    """A strategy of sensitivity 1, with its certificate.

    The weights have shapes (m,) and (n,). Eigendecompositions are of matrices of the size of an
    attribute.

    Attributes:
        strategy: of blocks, or in a product basis.
    """

    strategy: ProductDesign | BlockDesign


def solve(
    operator: Operator,
    parts: Parts,
    attributes: Sequence[Operator],
    p: float,
    *,
    product: bool = False,
    options: SolverOptions | None = None,
) -> UnionSolution:
    """Compute bounds on gamma_(p)(A), and a strategy that attains the upper one.

    Args:
        operator: the union itself, m x n.
        parts: for every part its factors, one for each attribute; none is zero.
        attributes: for every attribute all that is asked about it.
        p: in [2, inf].
        product: the strategy is to be one in a product basis.
        options: when to stop; the steps are those of all fixed points together. A first strategy
            is always found; the callback is called with the bounds so far.

    Returns:
        The best strategy found, with its true gap, whatever the status.
    """
    search = UnionSearch(options or SolverOptions())
    strategy, status = search.run(
        lambda: _stages(search, operator, parts, attributes, p, product=product)
    )
    u, w = search.duals
    return UnionSolution(
        strategy=strategy,
        dual_u=u,
        dual_w=w,
        certificate=Certificate(search.lower, search.upper),
        status=status,
        steps=search.steps,
        eigendecompositions=search.eigendecompositions,
        seconds=search.seconds,
    )


def _stages(
    search: UnionSearch,
    operator: Operator,
    parts: Parts,
    attributes: Sequence[Operator],
    p: float,
    *,
    product: bool,
) -> Iterator[None]:
    """Better and better bounds, the cheap ones first."""
    if not product:
        for blocks in whole_unions(parts, p, search.options.rel_gap / 2):
            search.attain(blocks)
            yield
    norms = _norms(search, parts, p)
    bases = [eigenbasis(search.factor(queries, p).strategy) for queries in attributes]
    reached = search.weigh(BasisProblem(parts, bases, p))
    yield
    known = p == 2 and (yield from _exchangeable(search, operator, parts))
    for index in range(len(attributes)):
        if known:
            break
        problem = free_attribute(parts, np.argsort(-norms), index, p)
        if problem is not None:
            _free(search, problem)
            yield
    for index, queries in enumerate(attributes):
        rows, cells = bases[index].matrix.shape
        if rows == 1 or math.comb(cells, 2) > MAX_PAIRS:
            continue
        tried = [*bases]
        tried[index] = residual_basis(search.factor(queries, p, "replace").strategy)
        value = search.weigh(BasisProblem(parts, tried, p))
        if value < reached:
            reached, bases = value, tried
        yield
    assert search.problem is not None
    assert search.point is not None
    start = parts, search.problem.bases, search.point.weights, p
    last, small = len(SHARPNESS), not known and operator.shape[1] <= UNION_CELLS
    gram_at = (0, last) if math.isfinite(p) else (1,)
    if 0 in gram_at and small:
        _dense(search, operator, search.problem, beginning(*start), from_gram=True)
        yield
    descents = descend(*start, evaluations=EVALUATIONS, proceed=search.in_time)
    for number, descended in enumerate(descents, start=1):
        improved = BasisProblem(parts, descended.bases, p)
        search.weigh(improved)
        yield
        if number == 1 and small:
            _dense(search, operator, improved, descended)
            yield
        if number in gram_at and small:
            _dense(search, operator, improved, descended, from_gram=True)
            yield


def _dense(
    search: UnionSearch,
    operator: Operator,
    problem: BasisProblem,
    descended: UnionDescended,
    *,
    from_gram: bool = False,
) -> None:
    """The lower bound of the slopes of a descent, or of their u and the w of `cell_weights`."""
    w = problem.cell_weights(operator, descended.u, descended.weights) if from_gram else descended.w
    u, w = problem.normalise(descended.u, w)
    search.below(lower_bound(operator, u, w, problem.p), u, w)


def _norms(search: UnionSearch, parts: Parts, p: float) -> Array:
    """A lower bound on gamma_(p) of every part; that of the largest is one on the union's."""
    distinct = dict.fromkeys(factor for part in parts for factor in part)
    designs = {factor: search.factor(factor, p) for factor in distinct}
    lower = [[designs[factor].certificate.lower for factor in part] for part in parts]
    norms = np.array([math.prod(part) * (1 - len(part) * EPS) for part in lower])
    largest = int(norms.argmax())
    weights = [
        kronecker.outer(
            [
                designs[queries].dual_u if s == largest else np.zeros(queries.shape[0])
                for queries in part
            ]
        )
        for s, part in enumerate(parts)
    ]
    w = kronecker.outer([designs[queries].dual_w for queries in parts[largest]])
    search.below(float(norms[largest]), np.concatenate(weights), w)
    return norms


def _exchangeable(
    search: UnionSearch, operator: Operator, parts: Parts
) -> Generator[None, None, bool]:
    """The lower bound of weights that are alike on values that may be exchanged.

    Returns:
        Whether it was found: no weights are better.
    """
    problem = exchangeable(parts)
    if problem is None:
        return False
    w = best = problem.start
    value = 0.0
    try:
        for _ in range(BLOCK_STEPS):
            reached, after = problem.step(w)
            gain = reached > value * (1 + EXCHANGED_GAIN)
            if reached > value:
                value, best = reached, w
            search.step()
            if not gain:
                break
            w = after
    finally:
        search.below(value, np.ones(operator.shape[0]), problem.expand(best))
    yield
    return True


def _free(search: UnionSearch, problem: BlockProblem) -> None:
    """The lower bound of one free attribute."""
    blocks = BoundsLoop(fixed_point.points(problem))
    try:
        for gap in blocks.gaps():
            if gap <= BLOCK_GAP or blocks.steps >= BLOCK_STEPS:
                break
            if blocks.upper.upper <= search.lower:  # no weights of this form help
                return
            search.step()
    finally:
        best = blocks.lower
        if best.lower > search.lower:
            value = problem.lower_bound(best.u, best.w)
            search.below(value, *problem.expand(best.u, best.w))
