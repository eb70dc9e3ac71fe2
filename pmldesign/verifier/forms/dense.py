"""A strategy as matrices, in the file or materialized: A, L, R and dual weights against its claims.

Under replace only vectors that sum to zero count: A and L R are compared on differences of cells.
Given invariants, these are differences of cells of one group.
Of several participations the sensitivity is that of their patterns (`participation`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verifier import balls, rounding
from pmldesign.verifier.balls import dual_norm, power_norm, root, total
from pmldesign.verifier.forms.form import Claims, Form
from pmldesign.verifier.forms.known_tables import left_open
from pmldesign.verifier.forms.known_tables import lower_bound as beside_tables
from pmldesign.verifier.forms.many_cells import Distances, different, proved_by_cells
from pmldesign.verifier.forms.persons import agreeing
from pmldesign.verifier.forms.products import lower_of_factors
from pmldesign.verifier.forms.structured import UNKNOWN, Computed, check_computed, own_unit
from pmldesign.verifier.forms.written import centred, pseudo_inverse
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import AGREEMENT, WEAKER, WEAKER_LOSS, Arrays, Checks, Header
from pmldesign.verifier.streams.participation import Drawn, Pattern, dual_factor

MOST_CELLS = 2048
"""Beyond, the loss under PML of a strategy with structure is that of its farthest columns."""
BALL_CELLS, BALL_ENTRIES = 256, 2**18
"""Of A and L in ball arithmetic: 0.1 s for a product of 256 x 256."""
RESIDUAL, MOST_RESIDUAL = 1e4, 1e-8
"""L R may differ from A by so many units of 2^-53 times the condition of R, and by no more."""
FEW, WEAKER_FEW = 24, 0.05
"""Of three columns the loss is bounded on strips, and of few on a line not at the best c of an
envelope, up to a few percent above the exact one."""
WEAKER_STRUCTURE = 1.0
"""A sensitivity that comes from the structure of a strategy may be a bound above the exact one."""
ANSWERED = 2**26
"""Most entries of the reconstruction L of a dense strategy."""


@dataclass(frozen=True, slots=True)
class Dense:
    """The content of a file of a dense strategy.

    Attributes:
        header: the claims.
        A: the queries, shape (m, n); None if they are unknown.
        L: the reconstruction, shape (m, r); None if A is unknown and L is A times an inverse.
        R: the strategy, shape (r, n).
        duals: u and w, or None.
        groups: of cells, within which a record is replaced, shape (n,); None for a single one.
        left: orthonormal, shape (n, k): the directions that several public tables leave open; None
            without them.
        pattern: the steps that a person may take part in; None for a single cell.
        lower: the bound proved by the dual weights of another form, a ball; None if they are
            `duals`.
        weaker: by how much a claim may be below `lower`.
        written: whether R was in the file; else it is known to double precision.
        queries: their number m, if A does not hold all of them: at p = 2 any A' with A'^T A' = A^T
            A has the same norm and the same sum of variances.
    """

    header: Header
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
    left: Any = None

    @property
    def members(self) -> list[Any]:
        """The cells of each group."""
        groups = np.zeros(self.R.shape[1]) if self.groups is None else self.groups
        return [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def moves(self, matrix: Any) -> Any:
        """Columns less the last one of their group; or on what public tables leave open."""
        if self.left is not None:
            moved = matrix @ self.left
            small = 16 * len(self.left) * rounding.UNIT * np.linalg.norm(matrix, axis=1)
            return np.where(np.linalg.norm(moved, axis=1) > small, moved.T, 0.0).T
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
    def many(self) -> bool:
        """Whether there are too many cells for a list of all their distances."""
        alone = self.groups is None and self.pattern is None
        return self.replace and alone and self.R.shape[1] > MOST_CELLS

    @property
    def exactly(self) -> bool:
        """Whether the sensitivity is that of R as it was in the file."""
        return self.written and self.pattern is None

    @property
    def rounding(self) -> float:
        """What a sensitivity may owe to rounding: under replace of R, of patterns of their sums."""
        return 8 * rounding.UNIT * (len(self.R) if self.replace or self.pattern else 1)

    @property
    def arithmetic(self) -> Any:
        """The module that computes with the matrices."""
        sizes = [array.size for array in (self.A, self.L, self.R) if array is not None]
        small = self.R.shape[1] <= BALL_CELLS and max(sizes) <= BALL_ENTRIES
        return balls if small and self.written else rounding

    def matrices(self, arrays: Arrays) -> Arrays:
        """The arrays of the file, with L and R as they are computed with."""
        known = {} if self.L is None else {"reconstruction": self.L}
        return {**arrays, "strategy": self.R, **known}

    @property
    def slack(self) -> float:
        """Relative tolerance by which a loss may exceed the proved value."""
        slack = max(float(self.arithmetic.WEAKEST), self.rounding)
        return slack if self.exactly and not self.many else 100 * slack


def check_dense(strategy: Dense, checks: Checks) -> None:
    """Everything that the header claims."""
    numbers, arithmetic = strategy.header.get("guarantee_numbers", {}), strategy.arithmetic
    distances, cells = Distances(strategy), strategy.R.shape[1]
    rest, off = _check_product(strategy, checks)
    spread, count = None, 0
    if strategy.L is not None:
        squares = arithmetic.squares(strategy.L)
        count = strategy.queries or len(squares)

        def spread(p: float) -> Any:
            few = strategy.queries is None or not math.isinf(p)
            return power_norm(squares, p) if few else None

    weaker, pml = WEAKER_LOSS, numbers.get("kind") == "pml"
    if pml and cells <= FEW:
        weaker = WEAKER_FEW
    bounded = strategy.many or (strategy.replace and arithmetic is rounding)
    if bounded or not strategy.written:
        weaker = math.inf  # the loss may be that of bounds on the distances
    computed = Computed(
        spread,
        count,
        distances.sensitivity,
        _lower(strategy, checks) if "lower" in strategy.header else None,
        rest,
        distances.known(),
        strategy.L,
        _weaker(strategy),
        WEAKER_STRUCTURE if bounded or not strategy.exactly else WEAKER,
        weaker,
        arithmetic.WEAKEST,
        max(arithmetic.WEAKEST, strategy.rounding),
        strategy.slack,
        off,
        len(strategy.R),
        _drawn(strategy),
        own_unit(strategy.R) if "own_grid" in strategy.header else None,
    )
    check_computed(strategy.header, computed, checks)


def _weaker(strategy: Dense) -> float:
    """By how much the lower bound that is claimed may be below the one computed here."""
    if strategy.lower is not None:
        return strategy.weaker
    of_cells = strategy.replace and strategy.duals is not None and strategy.duals[1].ndim == 1
    return math.inf if of_cells else WEAKER


def _drawn(strategy: Dense) -> Drawn | None:
    """What draws make of noise on R, lower triangular, in bands."""
    R, pattern = strategy.R, strategy.pattern
    if pattern is None or np.triu(R, 1).any() or len(R) != len(R.T):
        return None
    rows, columns = np.nonzero(R)
    longest = float(np.linalg.norm(R, axis=0).max()) * (1 + 8 * rounding.UNIT * len(R))
    return pattern.drawn(int((rows - columns).max()) + 1, longest, len(R))


def _check_product(strategy: Dense, checks: Checks) -> tuple[Any, float]:
    """L R = A: the effect of the difference on the upper bound, and by how much errors may be less.

    A reconstruction in double precision is off by the condition of R in units of 2^-53.
    """
    if strategy.A is None:
        checks.unchecked("L R = A", UNKNOWN)
        return None, AGREEMENT
    A, L, R = strategy.A, strategy.L, strategy.R
    cost = 1.0
    if strategy.replace:  # R and A on e_j - e_n
        A, R = strategy.moves(A), strategy.moves(R)
        cost = math.sqrt(2.0) * (1 + 1e-15)
    rows = strategy.arithmetic.residual_squares(A, L, R)
    values = np.linalg.svd(R, compute_uv=False)
    condition = float(values[0] / values[values > 1e-10 * values[0]][-1])
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(A, axis=1)  # 0 if the answer is public: L is then rounding alone
        lengths = np.where(lengths > 0, lengths, np.linalg.norm(strategy.A, axis=1))
        sizes = np.linalg.norm(L, axis=1) * values[0] + lengths
    off = np.array([float(root(square).upper()) for square in rows])
    worst = float((off / np.where(sizes > 0, sizes, 1.0)).max())
    allowed = min(RESIDUAL * rounding.UNIT * condition, MOST_RESIDUAL)
    right = worst <= allowed and bool(np.isfinite(sizes).all())
    checks.state("L R = A", right, f"but for {worst:.1e} of its rows")
    off_by = AGREEMENT + 8 * max(R.shape) * rounding.UNIT * condition
    return power_norm(rows, strategy.p) * cost, min(off_by, WEAKER)


def _lower(strategy: Dense, checks: Checks) -> Any | None:
    """What dual weights prove; None without any that are right."""
    slack = strategy.arithmetic.WEAKEST
    if strategy.A is None or strategy.lower is not None:
        return None if strategy.A is None else strategy.lower * (1 + rounding.WEAKEST - slack)
    if strategy.duals is None:
        return None
    u, w = strategy.duals
    if min(u.min(), w.min()) < 0 or (w.ndim == 2 and not np.array_equal(w, w.T)):
        checks.state("dual weights", False, "are negative or not symmetric")
        return None
    groups = strategy.groups
    if groups is not None and (w.ndim == 1 or w[groups[:, None] != groups].any()):
        checks.state("dual weights", False, "are of pairs of cells in different groups")
        return None
    if strategy.replace and w.ndim == 1:
        return proved_by_cells(strategy.A, u, w, strategy.p)
    if strategy.left is not None:
        return beside_tables(strategy.A @ strategy.left, strategy.left, u, w, strategy.p)
    A = strategy.A if len(w) == strategy.A.shape[1] else different(strategy.A)
    weight = total(map(arb, w.ravel().tolist())) / (2 if w.ndim == 2 else 1)
    scale = root(dual_norm(u.tolist(), strategy.p) * weight)
    return strategy.arithmetic.nuclear_norm(A, u, w) / scale


def dense_of(form: Form, claims: Claims, checks: Checks) -> Dense | None:
    """The matrices, if there are any and their shapes fit."""
    header, arrays, queries, _ = claims
    replace, pattern = header["neighbours"] == "replace", header.get("participation")
    R = form.matrix(arrays)
    if R is None:
        for name in ("lower", "upper", "sensitivity", "guarantee_numbers", "error"):
            if name in header:
                checks.unchecked(name, "the strategy is too large for its matrix")
        return None
    R = np.asarray(R, dtype=np.float64)
    if "strategy" not in arrays and replace:
        R = centred(R)
    A, total = _matrix(header, queries)
    L, left = arrays.get("reconstruction"), None
    if "counted" in arrays:
        left = left_open(arrays["counted"], arrays["sizes"])
    if A is not None and A.shape[1] == R.shape[1] and A.shape[0] * len(R) <= ANSWERED:
        if "right_inverse" in arrays:
            L = A @ arrays["right_inverse"]
        elif L is None:
            L = _reconstruction(A, R, left, replace=replace)
    duals = (arrays["dual_u"], arrays["dual_w"]) if "dual_u" in arrays else None
    fits = R.ndim == 2 and (L is None or L.shape[1:] == R.shape[:1])
    lower = None
    if A is not None:
        m, n = A.shape
        fits = fits and R.shape[1] == n and (L is None or L.shape[0] == m)
        lower = _lower_of_form(form, claims, A)
        shapes: list[tuple[int, ...]] = [(n, n)] if replace else [(n,)]
        if replace and n > MOST_CELLS and "strategy" in arrays:
            kinds = different(A).shape[1]
            shapes += [(n,), (kinds, kinds)]
        if duals is not None and (duals[0].shape != (m,) or duals[1].shape not in shapes):
            fits = fits and (lower is not None or "strategy" not in arrays)
            duals = None
    checks.state("shapes", bool(fits), "of the arrays")
    groups = agreeing(arrays)
    if left is not None:
        fits = fits and header["neighbours"] == "replace" and len(left) == R.shape[1]
        checks.state("tables", bool(fits), "of these cells, beside which a record is replaced")
    elif groups is not None or "known" in header:
        fits = fits and groups is not None and groups.shape == R.shape[1:]
        fits = fits and header["neighbours"] == "replace"
        checks.state("groups", bool(fits), "of cells, within which a record is replaced")
        _check_groups(groups, queries.known, checks)
    if not fits:
        return None
    return Dense(
        header,
        A if L is not None else None,
        L,
        R,
        duals,
        groups=groups,
        left=left,
        pattern=None if pattern is None else Pattern.of(pattern),
        lower=lower,
        weaker=form.weaker,
        written="strategy" in arrays,
        queries=total,
    )


def _check_groups(groups: Any, known: Queries | None, checks: Checks) -> None:
    """Whether groups have equal columns of queries whose answers determine their numbers."""
    if known is None or known.matrix is None:
        checks.unchecked("known", "the known answers have no name that tells them")
        return
    columns, same = np.unique(known.matrix, axis=1, return_inverse=True)
    pairs = set(zip(same.ravel().tolist(), groups.tolist(), strict=False))
    count = columns.shape[1]
    told = len(pairs) == count == len(set(groups.tolist())) and same.size == groups.size
    told = told and int(np.linalg.matrix_rank(columns)) == count
    checks.state("known", told, "answers that tell the number of records in each group")


def _matrix(header: Header, queries: Queries) -> tuple[Any, int | None]:
    """A, or at p = 2 a square root of A^T A and the number of queries if A has too many."""
    if queries.matrix is not None or queries.gram is None or float(header["p"]) != 2:
        return queries.matrix, None
    gram = queries.gram()
    values, vectors = scipy.linalg.eigh(gram)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, queries.count


def _reconstruction(A: Any, R: Any, left: Any, *, replace: bool) -> Any:
    """A R^+; under replace on differences of cells, or what tables leave open, of full rank."""
    if left is not None:
        A, R = A @ left, R @ left
    elif replace:
        A, R = A[:, :-1] - A[:, -1:], R[:, :-1] - R[:, -1:]
    return A @ pseudo_inverse(R)


def _lower_of_form(form: Form, claims: Claims, A: Any) -> Any:
    """What dual weights prove that are not those of single queries and cells; None without any."""
    header, arrays = claims[:2]
    if "dual_u" not in arrays:
        factors = claims.queries.factors() if claims.plain else None
        return factors and lower_of_factors(arrays, factors, float(header["p"]))
    proved = form.lower(claims)
    u, w = arrays["dual_u"], arrays["dual_w"]
    if proved is None and w.ndim == 3 and "participation" in header:
        steps, schema = u.size, Pattern.of(header["participation"])
        count, width = w.shape[:2]
        classes = np.arange(count)[:, None] + count * np.arange(width)
        patterns = arrays.get("dual_steps", classes)
        if u.ndim > 1 or steps > min(A.shape):
            raise ValueError("dual weights are for steps that there are not")
        if patterns.shape != (count, width) or not schema.allows(patterns):
            raise ValueError("dual weights are for steps of which a person cannot take part in all")
        F, omega = dual_factor(w, patterns, steps)
        size = root(dual_norm(u.tolist(), float(header["p"])) * arb(omega))
        proved = rounding.factored_norm(A[:steps, :steps], u, F) / size
    return proved
