"""The matrix that a strategy stands for, to 60 digits, from the arrays that it is made of.

Nothing here is shared with the package: sums, products, roots and Cholesky factors are those of
mpmath (distances: of Arb), and every float64 number counts as the rational number that it is.
"""

import itertools
import math

import flint
import mpmath
import numpy as np

from pmldesign.strategies import (
    AllRangesStrategy,
    BesideStrategy,
    BinaryQueries,
    BlockStrategy,
    EpochStrategy,
    FactorStrategy,
    IdentityAndRows,
    ProductStrategy,
    QueriesStrategy,
    RegionsStrategy,
    RegionTablesStrategy,
    RegularStrategy,
    RunningQueries,
    Strategy,
    StreamStrategy,
    TableMatricesStrategy,
    TablesStrategy,
    ToeplitzStrategy,
    UnionQueries,
    WeightedTablesStrategy,
    varying,
)

mpmath.mp.dps = 60


def real(matrix):
    """An array of mpmath numbers, shape (r, n)."""
    values = np.asarray(matrix, dtype=np.float64)
    numbers = [mpmath.mpf(value) for value in values.ravel().tolist()]
    return np.array(numbers, dtype=object).reshape(values.shape)


def centred(rows):
    return np.array([row - sum(row) / len(row) for row in rows], dtype=object)


def kron(matrices):
    product = real([[1.0]])
    for matrix in matrices:
        product = np.array([np.outer(a, b).ravel() for a in product for b in matrix], dtype=object)
    return product


def contrast_rows(n):
    """H, shape (n - 1, n)."""
    rows = real(np.zeros((n - 1, n)))
    for k in range(1, n):
        rows[k - 1, :k] = 1 / mpmath.sqrt(k * (k + 1))
        rows[k - 1, k] = -k / mpmath.sqrt(k * (k + 1))
    return rows


def table_rows(sizes, subset):
    """The table over some attributes."""
    ones = [real(np.eye(n)) if i in subset else real(np.ones((1, n))) for i, n in enumerate(sizes)]
    return kron(ones)


def of_product(strategy):
    rows = kron([exact_rows(factor) for factor in strategy.factors])
    if strategy.weights is None:
        return rows
    roots = np.array([mpmath.sqrt(w) for w in strategy.weights.tolist()], dtype=object)
    return roots[:, None] * rows


def of_blocks(strategy):
    rows = []
    for block, measured in enumerate(strategy.blocks):
        for place in np.argwhere(strategy.combinations == block):
            parts = [real(basis)[:, [k]].T for basis, k in zip(strategy.bases, place, strict=True)]
            parts.insert(strategy.index, exact_rows(measured))
            rows.append(kron(parts))
    return np.concatenate(rows)


def of_table_matrices(strategy):
    pairs = zip(strategy.subsets, strategy.matrices, strict=True)
    rows = np.concatenate([real(R) @ table_rows(strategy.sizes, s) for s, R in pairs])
    return centred(rows) if strategy.public else rows


def of_weighted(strategy):
    tables = []
    for subset, weight in zip(strategy.subsets, strategy.weights.tolist(), strict=True):
        parts = [
            real(strategy.designs.get(i, np.eye(n)) if i in subset else np.ones((1, n)))
            for i, n in enumerate(strategy.sizes)
        ]
        tables.append(mpmath.mpf(weight) * kron(parts))
    rows = np.concatenate(tables)
    return centred(rows) if strategy.public else rows


def of_tables(strategy):
    rows = []
    for residual, precision in zip(strategy.residuals, strategy.precisions.tolist(), strict=True):
        parts = [real(np.ones((1, n))) for n in strategy.sizes]
        for i in residual:
            n = strategy.sizes[i]
            contrasts = mpmath.sqrt(mpmath.mpf(n) / (n - 1)) * contrast_rows(n)
            parts[i] = real(strategy.ordered[i].rows) if i in strategy.ordered else contrasts
        part = mpmath.sqrt(precision) * kron(parts)
        rows.append(centred(part) if strategy.public else part)
    return np.concatenate(rows)


def of_stream(strategy):
    found, n = strategy.factor, strategy.cells
    diagonal, gains, decays = map(real, (found.diagonal, found.gains, found.decays))
    rows = real(np.zeros((n, n)))
    for j in range(n):
        rows[j, j] = diagonal[j]
        state = real(np.ones(gains.shape[1]))
        for i in range(j + 1, n):
            state = state * decays[i]
            rows[i, j] = sum(gains[i] * state)
    return rows


def of_toeplitz(strategy):
    n = strategy.cells
    coefficients = real(strategy.coefficients)
    zero = mpmath.mpf(0)
    return np.array(
        [[coefficients[i - j] if i >= j else zero for j in range(n)] for i in range(n)],
        dtype=object,
    )


def of_recurrence(strategy):
    d, g, decays = (real(part) for part in (strategy.diagonal, strategy.gains, strategy.decays))
    rows = real(np.zeros(strategy.shape))
    for i in range(strategy.cells):
        rows[i, i] = d[i]
        faded = g[i]
        for j in range(i - 1, -1, -1):
            faded = faded * decays[j + 1]
            rows[i, j] = sum(faded)
    return rows


EXACT_ROWS = {
    Strategy: lambda s: real(s.matrix),
    RegularStrategy: lambda s: real(s.matrix),
    QueriesStrategy: lambda s: real(s.workload.to_dense()),
    BinaryQueries: lambda s: real(s.workload.to_dense()),
    UnionQueries: lambda s: real(s.workload.to_dense()),
    RunningQueries: lambda s: real(s.workload.to_dense()),
    ProductStrategy: of_product,
    BesideStrategy: lambda s: centred(exact_rows(s.whole)[varying(s.whole)]),
    BlockStrategy: of_blocks,
    WeightedTablesStrategy: of_weighted,
    AllRangesStrategy: of_stream,
    EpochStrategy: lambda s: real(s.matrix),
    FactorStrategy: of_recurrence,
    TableMatricesStrategy: of_table_matrices,
    TablesStrategy: of_tables,
    RegionsStrategy: lambda s: real(s.matrix),
    RegionTablesStrategy: lambda s: real(s.matrix),
    StreamStrategy: of_stream,
    ToeplitzStrategy: of_toeplitz,
    IdentityAndRows: lambda s: np.concatenate([real(np.diag(s.diagonal)), real(s.rows)]),
}


def exact_rows(strategy):
    """R, shape (r, n)."""
    return EXACT_ROWS[type(strategy)](strategy)


def distances(rows, norm):
    """Of all pairs of columns, shape (n, n); by Arb, which takes a tenth of the time of mpmath."""
    n = rows.shape[1]
    apart = real(np.zeros((n, n)))
    with flint.ctx.workprec(2 * mpmath.mp.prec):
        columns = [[flint.arb(value) for value in column] for column in rows.T]
        for i, j in itertools.combinations(range(n), 2):
            differences = [a - b for a, b in zip(columns[i], columns[j], strict=True)]
            if norm == "l1":
                total = sum(map(abs, differences))
            else:
                total = sum(d * d for d in differences).sqrt()
            assert total.rel_accuracy_bits() > mpmath.mp.prec or total == 0
            apart[i, j] = apart[j, i] = mpmath.mpf(tuple(map(int, total.mid().man_exp())))
    return apart


def length(column, norm):
    return sum(abs(column)) if norm == "l1" else mpmath.sqrt(sum(column**2))


def exact_sensitivity(rows, neighbours, norm, apart):
    """The largest length of a column, or of their `distances`."""
    if neighbours == "add-remove":
        return max(length(column, norm) for column in rows.T)
    return max(apart.ravel())


def cells_of(strategy):
    return math.prod(getattr(strategy, "sizes", (strategy.cells,)))
