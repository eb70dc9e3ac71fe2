"""Tables that share coordinates: inverses, slopes and lower bounds against whole matrices."""

import itertools
import math

import numpy as np
import pytest

from pmldesign.strategies import TableMatricesStrategy
from pmldesign_solvers.joint import Descent, Inverse, JointQuestion, Spaces, lower_bound

CASES = [
    ((2, 3), [(0,), (0, 1), ()]),
    ((3, 2, 2), [(0, 1), (1, 2), (0, 2), (1,)]),
    ((2, 1, 3), [(0, 1), (1, 2), (2,)]),
    ((2, 2, 2, 3), [(0, 1, 2), (1, 2, 3), (1, 3), (0,)]),
]


def by_definition(sizes, listed):
    """All queries, cell by cell."""
    cells, rows = [*itertools.product(*map(range, sizes))], []
    for T, queries in listed:
        inner = [*itertools.product(*(range(sizes[i]) for i in T))]
        rows.append(queries[:, [inner.index(tuple(cell[i] for i in T)) for cell in cells]])
    return np.vstack(rows)


@pytest.mark.parametrize("total", [True, False])
def test_slopes_and_inverses(total):
    rng = np.random.default_rng(1)
    sizes = (2, 3, 2, 1)
    sets = [(0, 1), (1, 2), (2,), (0, 2), (), (1, 3)]
    listed = [(T, rng.normal(size=(3, math.prod(sizes[i] for i in T)))) for T in sets]
    question = JointQuestion.of(sizes, listed)
    assert set(question.tables) == {(0, 1), (0, 2), (1, 2)}  # the last attribute has one value
    spaces = Spaces(sizes, question.tables, total=total)
    descent = Descent(spaces, question.asked, question.grams)
    point = descent.point + 0.1 * rng.normal(size=len(descent.point))
    way = rng.normal(size=len(point))
    for power in (1.0, 3.0):
        ahead, behind = (descent._value(point + s * 1e-6 * way, power)[0] for s in (1, -1))
        assert descent._value(point, power)[1] @ way == pytest.approx((ahead - behind) / 2e-6)
    # the same by matrices on all cells
    rows = [rng.normal(size=(len(V) + 1, len(V))) for V in spaces.inverses()]
    strategy = TableMatricesStrategy("own", sizes, question.tables, rows)
    R = strategy.matrix if total else strategy.matrix - strategy.matrix.mean(axis=1)[:, None]
    images = [Y @ V for Y, V in zip(rows, spaces.inverses(), strict=True)]
    blocks = [*Inverse(spaces, [image.T @ image for image in images]).blocks()]
    for T, V, B in zip(question.tables, spaces.inverses(), blocks, strict=True):
        M = by_definition(sizes, [(T, np.eye(len(V)))])
        M = M if total else M - M.mean(axis=1)[:, None]
        np.testing.assert_allclose(V @ B @ V.T, M @ np.linalg.pinv(R.T @ R, 1e-11) @ M.T, atol=1e-9)


@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_lower_bounds_are_nuclear_norms(seed, total, monkeypatch):
    rng = np.random.default_rng(seed)
    sizes, sets = CASES[seed]
    listed = [(T, rng.normal(size=(2, math.prod(sizes[i] for i in T)))) for T in sets]
    question = JointQuestion.of(sizes, listed)
    spaces = Spaces(sizes, question.tables, total=total)
    cells = [rng.dirichlet(np.ones(n)) for n in sizes]
    u = rng.uniform(0.5, 1, 2 * len(sets))
    used = {i for T in sets for i in T}
    w = np.ones(1)
    for i, part in enumerate(cells):
        w = np.kron(w, part if i in used else np.full(len(part), 1 / len(part)))
    A = by_definition(sizes, listed)[question.order]
    B = np.sqrt(u)[:, None] * A * np.sqrt(w)
    factor = 1.0
    if not total:
        B -= np.outer(B @ np.sqrt(w), np.sqrt(w))
        equal = math.prod(float(cells[i] @ cells[i]) for i in used)
        factor = math.sqrt(2 / (1 - equal)) if equal < 1 - 1e-12 else 0.0
    exact = factor * np.linalg.norm(B, "nuc") / math.sqrt(np.linalg.norm(u, 2))
    found = lower_bound(spaces, question.asked, cells, u, 4.0)
    assert found <= exact * (1 + 1e-12) + 1e-12
    assert found >= exact * (1 - 1e-5)
    monkeypatch.setattr("pmldesign_solvers.joint.solve.MOST_ROWS", 0)
    cut = lower_bound(spaces, question.asked, cells, u, 4.0)
    assert 0.5 * exact <= cut <= exact * (1 + 1e-12) + 1e-12
