"""A strategy that is written out: A, L, R and the dual weights against what the header claims.

Under replace only vectors that sum to zero count: A and L R are compared on differences of cells.
Beside public answers these are of cells of one group.
Of several participations the sensitivity is that of their patterns (`participation`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verify.arithmetic import balls, rounding
from pmldesign.verify.arithmetic.intervals import (
    above,
    below,
    dual_norm,
    largest,
    power_norm,
    root,
    total,
)
from pmldesign.verify.distributions import rows_of
from pmldesign.verify.losses import dp_loss, pml_loss
from pmldesign.verify.moments import gaussian_error, laplace_error
from pmldesign.verify.report import WEAKER, WEAKER_LOSS, Checks, as_number
from pmldesign.verify.streams.participation import Pattern

MOST_CELLS = 2048
"""Beyond, the loss under PML of a strategy with structure is that of its farthest columns."""
BALL_CELLS, BALL_ENTRIES = 256, 2**18
"""Of A and L in ball arithmetic: 0.1 s for a product of 256 x 256."""
RESIDUAL = 1e4
"""L R may differ from A by so many units of 2^-53 times the condition of R."""
FEW, WEAKER_FEW = 24, 0.05
"""Of three columns the loss is bounded on strips, and of few on a line not at the best c of an
envelope, up to a few percent above the exact one."""
SAME = 1e-9
"""Columns closer than this part of the largest distance count as equal in double precision."""
WEAKER_STRUCTURE = 1.0
"""A sensitivity that comes from the structure of a strategy may be a bound above the exact one."""


@dataclass(frozen=True, slots=True)
class Dense:
    """What a file of a strategy that is written out has.

    Attributes:
        header: the claims.
        A: the queries, shape (m, n); None if nobody knows them.
        L: the reconstruction, shape (m, r); None if nobody knows A and L is A times an inverse.
        R: the strategy, shape (r, n).
        duals: u and w, or None.
        groups: of cells, within which a record is replaced, shape (n,); None for a single one.
        pattern: the steps that a person may take part in; None for a single cell.
        lower: what the dual weights of another form prove, a ball; None if they are `duals`.
        weaker: by how much a claim may be below `lower`.
        written: whether R was in the file; else it is known to double precision.
        queries: their number m, where A is not all of them: at p = 2 any A' with
            A'^T A' = A^T A has the same norm and the same sum of variances.
    """

    header: Mapping[str, Any]
    A: Any
    L: Any
    R: Any
    duals: tuple[Any, Any] | None = None
    pattern: Pattern | None = None
    lower: Any = None
    weaker: float = WEAKER
    written: bool = True
    queries: int | None = None
    groups: Any = None

    @property
    def members(self) -> list[Any]:
        """The cells of each group."""
        groups = np.zeros(self.R.shape[1]) if self.groups is None else self.groups
        return [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def moves(self, matrix: Any) -> Any:
        """Columns less the last one of their group."""
        parts = [matrix[:, cells[:-1]] - matrix[:, cells[-1:]] for cells in self.members]
        return np.hstack(parts)

    @property
    def replace(self) -> bool:
        """Whether neighbours differ by a record that is replaced."""
        return bool(self.header["neighbours"] == "replace")

    @property
    def p(self) -> float:
        """Of the error and the norm."""
        return float(self.header["p"])

    @property
    def rounding(self) -> float:
        """What a sensitivity may owe to the entries of R: under replace they are rounded."""
        return 8 * rounding.UNIT * (len(self.R) if self.replace else 1)

    @property
    def arithmetic(self) -> Any:
        """The module that computes with the matrices."""
        sizes = [array.size for array in (self.A, self.L, self.R) if array is not None]
        small = self.R.shape[1] <= BALL_CELLS and max(sizes) <= BALL_ENTRIES
        return balls if small and self.written else rounding

    @property
    def slack(self) -> float:
        """By how much, relatively, a loss may exceed what is proved."""
        slack = max(float(self.arithmetic.WEAKEST), self.rounding)
        return slack if self.written else 100 * slack


def check_dense(strategy: Dense, checks: Checks) -> None:
    """Everything that the header claims."""
    squares = None if strategy.L is None else strategy.arithmetic.squares(strategy.L)
    rest = _check_product(strategy, checks)
    distances = _Distances(strategy)
    if "upper" in strategy.header:
        _check_norm(strategy, checks, squares, rest, distances)
    if "noise" in strategy.header:
        _check_noise(strategy, checks, squares, distances)


class _Distances:
    """Distances of the columns of R, each kind computed when it is first asked for."""

    def __init__(self, strategy: Dense) -> None:
        self.strategy = strategy
        self._kept: dict[str, list[list[Any]]] = {}

    def all(self, norm: str) -> list[list[Any]]:
        """The distances of all pairs."""
        if norm not in self._kept:
            arithmetic, R = self.strategy.arithmetic, self.strategy.R
            if norm == "l1":
                self._kept[norm] = arithmetic.absolute_distances(R)
            else:
                squared = arithmetic.distance_squares(R)
                self._kept[norm] = [[root(value) for value in row] for row in squared]
            if arithmetic is rounding:
                self._kept[norm] = _without_rounding(self._kept[norm])
        return self._kept[norm]

    def sensitivity(self, norm: str) -> Any:
        """The largest distance of neighbours."""
        arithmetic, R = self.strategy.arithmetic, self.strategy.R
        if self.strategy.pattern is not None:
            value = self.strategy.pattern.sensitivity(R, norm)
            return arb(value, value * rounding.gamma(4 * len(R)))
        if self.strategy.replace:
            rows = self.all(norm)
            groups = [cells.tolist() for cells in self.strategy.members]
            return largest(rows[i][j] for cells in groups for i in cells for j in cells)
        if norm == "l1":
            return largest(arithmetic.absolute_sums(R))
        return root(largest(arithmetic.squares(np.ascontiguousarray(R.T))))


def _without_rounding(distances: list[list[Any]]) -> list[list[Any]]:
    """Distances, those that may be rounding alone being 0."""
    far = max(float(value) for row in distances for value in row)
    return [[value if float(value) > SAME * far else arb(0) for value in row] for row in distances]


def _check_product(strategy: Dense, checks: Checks) -> Any:
    """L R = A, and what the difference adds to the upper bound."""
    if strategy.A is None:
        checks.unchecked("L R = A", "the queries are not known; give --workload")
        return None
    A, L, R = strategy.A, strategy.L, strategy.R
    cost = 1.0
    if strategy.replace:  # R and A on e_j - e_n
        A, R = strategy.moves(A), strategy.moves(R)
        cost = math.sqrt(2.0) * (1 + 1e-15)
    rows = strategy.arithmetic.residual_squares(A, L, R)
    values = np.linalg.svd(R, compute_uv=False)
    condition = float(values[0] / values[values > 1e-10 * values[0]][-1])
    sizes = np.linalg.norm(L, axis=1) * values[0] + np.linalg.norm(A, axis=1)
    off = np.array([float(root(square).upper()) for square in rows])
    worst = float((off / np.where(sizes > 0, sizes, 1.0)).max())
    allowed = RESIDUAL * rounding.UNIT * condition
    checks.state("L R = A", worst <= allowed, f"but for {worst:.1e} of its rows")
    return power_norm(rows, strategy.p) * cost


def _check_norm(
    strategy: Dense, checks: Checks, squares: Any, rest: Any, distances: _Distances
) -> None:
    header = strategy.header
    if strategy.A is None:
        for name in ("lower", "upper"):
            checks.unchecked(name, "the queries are not known; give --workload", header[name])
        return
    slack = strategy.arithmetic.WEAKEST
    value = power_norm(squares, strategy.p) * distances.sensitivity("l2") + rest
    checks.at_most("upper", header["upper"], above(value) * (1 - slack))
    if strategy.lower is not None:
        proved = below(strategy.lower) * (1 + rounding.WEAKEST)
        checks.at_least("lower", header["lower"], proved, weaker=strategy.weaker)
        return
    if strategy.duals is None:
        checks.unchecked("lower", "the file has no dual weights of this form", header["lower"])
        return
    u, w = strategy.duals
    if min(u.min(), w.min()) < 0 or (w.ndim == 2 and not np.array_equal(w, w.T)):
        checks.state("dual weights", False, "are negative or not symmetric")
        return
    if strategy.groups is not None and w[strategy.groups[:, None] != strategy.groups].any():
        checks.state("dual weights", False, "are of pairs of cells in different groups")
        return
    weight = total(map(arb, w.ravel().tolist())) / (2 if w.ndim == 2 else 1)
    scale = root(dual_norm(u.tolist(), strategy.p) * weight)
    proved = strategy.arithmetic.nuclear_norm(strategy.A, u, w) / scale
    checks.at_least("lower", header["lower"], below(proved) * (1 + slack))


def _check_noise(strategy: Dense, checks: Checks, squares: Any, distances: _Distances) -> None:
    header = strategy.header
    noise, scale = header["noise"], as_number(header["scale"])
    if scale is None or scale < 0 or noise not in ("gaussian", "laplace"):
        checks.state("noise", False, f"{noise!r} of scale {header['scale']!r}")
        return
    norm = "l1" if noise == "laplace" else "l2"
    if "sensitivity" in header:
        value = above(distances.sensitivity(norm))
        slack = max(strategy.arithmetic.WEAKEST, strategy.rounding)
        weaker = WEAKER if strategy.written else WEAKER_STRUCTURE
        claimed = header["sensitivity"]
        checks.at_most("sensitivity", claimed, value * (1 - slack), weaker=weaker)
    check_guarantee(strategy, checks, distances, scale)
    if squares is None:
        checks.unchecked("error", "the queries are not known; give --workload")
        return
    _check_errors(strategy, checks, squares, scale)


def check_guarantee(strategy: Dense, checks: Checks, distances: Any, scale: float) -> None:
    """Whether noise of this scale meets the guarantee, and what it achieves."""
    header = strategy.header
    numbers = header["guarantee_numbers"]
    if scale == 0:
        checks.unchecked("guarantee", "noise of scale 0 meets a vacuous guarantee only")
        return
    loss = loss_of(numbers, header["noise"], distances, arb(scale))
    if loss is None:
        checks.unchecked("guarantee", f"{numbers['kind']} of {header['noise']} noise")
        return
    value, target, slack = above(loss[0]), loss[1], strategy.slack
    checks.state("guarantee", value <= target * (1 + slack), "the loss at the scale", value)
    if "achieved" in header:
        few = numbers["kind"] == "pml" and strategy.R.shape[1] <= FEW
        weaker = WEAKER_FEW if few else WEAKER_LOSS
        if not strategy.written or (numbers["kind"] == "pml" and strategy.R.shape[1] > MOST_CELLS):
            weaker = math.inf  # the loss may be that of bounds on the distances
        checks.at_most("achieved", header["achieved"], value * (1 - slack), weaker=weaker)


def loss_of(
    numbers: Mapping[str, Any], noise: str, distances: Any, scale: Any
) -> tuple[Any, float] | None:
    """The loss of noise of this scale, and what it may be; None where it is not known."""
    norm = "l1" if noise == "laplace" else "l2"
    if numbers["kind"] != "pml":
        return dp_loss(numbers, noise, distances.sensitivity(norm) / scale)
    rows = rows_of(numbers, distances.all(norm), merge=norm == "l2")
    return pml_loss(numbers, noise, rows, scale)


def _check_errors(strategy: Dense, checks: Checks, squares: Any, scale: float) -> None:
    header, factor, p = strategy.header, arb(scale), strategy.p

    def error(exponent: float) -> Any | None:
        if header["noise"] == "laplace":
            return laplace_error(squares, strategy.L, factor, exponent)
        return gaussian_error(squares, factor, exponent)

    total_error, mean = error(2), arb(strategy.queries or len(squares)).sqrt()
    values = {
        "error": error(p),
        "rmse": None if total_error is None else total_error / mean,
        "max_std": error(math.inf) if strategy.queries is None else None,
    }
    for name, value in values.items():
        if name in header and value is None:
            checks.unchecked(name, "too many queries, or cells for this noise", header[name])
        elif name in header:
            checks.equal(name, header[name], below(value), above(value))
