"""Every strategy in whole numbers, against 60 digits: 500 random ones, degenerate shapes first."""

import mpmath
import numpy as np
import pytest
from exact_matrices import exact_rows
from scipy import linalg

from pmldesign.privacy import Neighbours, Noise
from pmldesign.releases import lattice_of
from pmldesign.strategies import (
    BesideStrategy,
    BlockStrategy,
    FactorStrategy,
    IdentityAndRows,
    ProductStrategy,
    Strategy,
    StreamStrategy,
    TableMatricesStrategy,
    TablesStrategy,
    WeightedTablesStrategy,
    haar_wavelet,
    tree,
)
from pmldesign.workloads import RECORDS, as_workload, given_invariants
from pmldesign_solvers.streams import Nodes, RunningSums
from pmldesign_solvers.tables import Measured


def weights(rng, count):
    return 10.0 ** rng.uniform(-2, 2, size=count)


def matrix(rng, rows, cells):
    """Random; with equal columns, a zero column, or whole numbers."""
    values = rng.standard_normal((rows, cells)) * weights(rng, (rows, 1))
    kind = rng.integers(4)
    if kind == 0:
        values[:, -1] = values[:, 0]
    if kind == 1 and cells > 1:
        values[:, 0] = 0.0
    return np.rint(values * 8) + (kind == 2) * np.eye(rows, cells) if kind > 1 else values


def product(rng):
    shapes = [(1, 1), (1, 3), (3, 1), (2, 2), (3, 2)]
    chosen = rng.integers(len(shapes), size=2)
    parts = [Strategy("f", matrix(rng, *shapes[k]) + np.eye(*shapes[k])) for k in chosen]
    return ProductStrategy("product", parts)


def trees(rng):
    return ProductStrategy("trees", [tree(int(rng.integers(1, 5))), haar_wavelet(3)])


def weighted_product(rng):
    parts = [Strategy("f", rng.standard_normal((n, n)) + 3 * np.eye(n)) for n in (1, 3)]
    return ProductStrategy("product", parts, weights=weights(rng, 3))


def blocks(rng):
    basis = linalg.qr(rng.standard_normal((3, 3)))[0]
    parts = [Strategy("b", rng.standard_normal((2, 2)) + np.eye(2)) for _ in range(2)]
    return BlockStrategy("blocks", int(rng.integers(2)), [basis], [0, 1, 0], parts)


SETS = [(), (0,), (1,), (0, 1), (0, 2), (0, 1, 2)]


def some(rng, sets=SETS):
    return [sets[k] for k in rng.permutation(len(sets))[: rng.integers(1, len(sets) + 1)]]


def contrasts(rng):
    sets = some(rng, [(), (0,), (1,), (0, 1), (0, 3)])
    return TablesStrategy("contrasts", (3, 2, 1, 2), sets, weights(rng, len(sets)))


def coordinates(rng):
    rows = rng.standard_normal((2, 3))
    ordered = {1: Measured(rows, np.linalg.inv(np.vstack([np.ones(3), rows])))}
    sets = some(rng)
    return TablesStrategy("ordered", (2, 3, 2), sets, weights(rng, len(sets)), ordered)


def tables(rng):
    sets = some(rng)
    return WeightedTablesStrategy("tables", (3, 1, 2), sets, weights(rng, len(sets)))


def designs(rng):
    made = {0: rng.standard_normal((4, 3)), 2: np.tri(2)}
    made = made if rng.integers(2) else {2: np.tri(2)}
    sets = some(rng)
    return WeightedTablesStrategy("designs", (3, 2, 2), sets, weights(rng, len(sets)), made)


def table_matrices(rng):
    sets = [(0, 1), (2,), (1, 2)]
    cells = [6, 2, 4]
    return TableMatricesStrategy("m", (3, 2, 2), sets, [matrix(rng, n + 1, n) for n in cells])


def rows(rng):
    d = weights(rng, 4)
    below = rng.standard_normal((2, 4)) * d if rng.integers(2) else np.zeros((0, 4))
    return IdentityAndRows("rows", d, below)


def recurrence(rng):
    n, count = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    sums = RunningSums(rng.uniform(0.1, 1.0, n - 1), np.ones(n), np.ones(n))
    numbers = weights(rng, n), weights(rng, (n, count)), rng.uniform(0, 1, (n, count))
    return FactorStrategy("recurrence", sums, *numbers)


def stream(rng):
    n, count = int(rng.integers(2, 8)), int(rng.integers(1, 3))
    sums = RunningSums(rng.uniform(0.1, 1.0, n - 1), np.ones(n), np.ones(n))
    nodes = Nodes(np.sort(weights(rng, count)) ** 0.3, weights(rng, count))
    return StreamStrategy("s", sums, rng.uniform(0.5, 2, n), rng.uniform(0.5, 2, n), nodes)


def dense(rng):
    return Strategy("matrix", matrix(rng, int(rng.integers(1, 5)), int(rng.integers(1, 5))) + 0.5)


MAKERS = {
    "matrix": dense,
    "product": product,
    "trees": trees,
    "weighted product": weighted_product,
    "product, public": lambda rng: BesideStrategy(trees(rng)),
    "blocks": blocks,
    "contrasts": contrasts,
    "coordinates": coordinates,
    "tables": tables,
    "designs": designs,
    "matrices of tables": table_matrices,
    "identity and rows": rows,
    "recurrence": recurrence,
    "stream": stream,
}
EACH = 36
"""Random ones of each kind."""


@pytest.mark.parametrize("kind", MAKERS)
def test_lattices_are_as_near_as_they_say_and_neighbours_no_farther_apart(kind, monkeypatch):
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 0)
    for seed in range(EACH):
        rng = np.random.default_rng(seed)
        strategy = MAKERS[kind](rng)
        n, bits = strategy.cells, int(rng.integers(10, 31))
        workload = as_workload(np.eye(n))
        public = isinstance(strategy, BesideStrategy)
        asked = given_invariants(workload, RECORDS) if public else workload
        lattice = lattice_of(strategy, asked, bits)
        R = exact_rows(strategy.whole if public else strategy)
        x = rng.integers(0, 10 ** int(rng.integers(1, 7)), n)
        images = [lattice.image(x)] + [lattice.image(x + e) for e in np.eye(n, dtype=np.int64)]
        images = [[int(v) for v in image] for image in images]
        check_nearness(lattice, R, x, images[0], strategy)
        check_sensitivities(lattice, images, public=public)


def check_nearness(lattice, R, x, image, strategy):
    """What is measured is R x, up to the bias of an entry and half a unit."""
    if lattice.estimator is not strategy:  # a rounded matrix is a strategy itself
        R = np.array([[mpmath.mpf(v) for v in row] for row in lattice.estimator.matrix.tolist()])
    total = int(x.sum())
    for i, unit in enumerate(lattice.units.tolist()):
        exact = sum(R[i, j] * int(x[j]) for j in range(len(x)))
        size = sum(abs(R[i, j]) * int(x[j]) for j in range(len(x)))
        allowed = lattice.bias * (1 + total) + 2.0**-45 * float(size)
        assert abs(mpmath.mpf(unit) * image[i] - exact) <= allowed


def check_sensitivities(lattice, images, *, public):
    """Differences of images of neighbours, in whole numbers."""
    first, *others = images
    pairs = {Neighbours.ADD_REMOVE: [(other, first) for other in others]}
    pairs[Neighbours.REPLACE] = [(a, b) for a in others for b in others]
    for neighbours, listed in pairs.items():
        if public and neighbours is Neighbours.ADD_REMOVE:
            continue
        for noise in (Noise.GAUSSIAN, Noise.LAPLACE):
            power = 1 if noise is Noise.LAPLACE else 2
            exact = max(sum(abs(a - b) ** power for a, b in zip(*p, strict=True)) for p in listed)
            value, tight = lattice.sensitivity(neighbours, noise)
            assert exact == value if tight else exact <= value
