"""Tables under replace: the bound of pairs from its definition, and weights of sets."""

from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from pmldesign_solvers.norm import SolverOptions, solve_norm
from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.tables import (
    DualPoint,
    PairBound,
    Question,
    apart,
    even_weights,
    length_rows,
    lower_bound,
    weighted,
)
from pmldesign_solvers.tables import solve as solver

QUESTION = Question(
    (4, 3, 2, 3),
    (0, 1, 2, 3),
    (DenseOperator(np.tri(4)), None, None, DenseOperator(np.tri(3)[1:])),
    ((0, 1), (1, 2), (0, 3), (2,), (1, 3)),
    np.array([1.0, 2.0, 0.5, 1.0, 1.0]),
)


def written_out(question):
    rows = []
    for table, scale in zip(question.tables, question.scales, strict=True):
        factors = [np.ones((1, n)) for n in question.sizes]
        for k in table:
            queries = question.factors[k]
            factors[k] = np.eye(question.sizes[k]) if queries is None else queries.to_dense()
        rows.append(scale * reduce(np.kron, factors))
    return np.vstack(rows)


def pairs_of(w, share):
    """Products w_x w_y, less where both are in the same half."""
    sums = np.cumsum(w)[:-1]
    last = np.abs(sums - 0.5).argmin()
    below, m = np.arange(len(w)) <= last, sums[last]
    g = np.where(below, np.sqrt((1 - m) / m), -np.sqrt(m / (1 - m)))
    return np.outer(w, w) * (1 - share * min(m / (1 - m), (1 - m) / m) * np.outer(g, g))


def pairs_of_plain(n, theta):
    apart = (np.ones((n, n)) - np.eye(n)) / (n * (n - 1))
    return theta * apart + (1 - theta) / n**2


@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_bound_is_the_nuclear_norm_of_its_pairs(share, theta):
    """With all directions kept nothing is lost but that the weights are products."""
    rng = np.random.default_rng(5)
    cells = {0: rng.dirichlet(np.full(4, 3)), 3: rng.dirichlet(np.full(3, 3))}
    rho = reduce(
        np.kron,
        [
            pairs_of(cells[0], share),
            pairs_of_plain(3, theta),
            pairs_of_plain(2, theta),
            pairs_of(cells[3], share),
        ],
    )
    assert rho.min() >= -1e-15
    np.fill_diagonal(rho, 0.0)
    laplacian = 2 / rho.sum() * (np.diag(rho.sum(axis=1)) - rho)
    A = written_out(QUESTION)
    exact = np.sqrt(np.maximum(np.linalg.eigvalsh(A @ laplacian @ A.T), 0)).sum()
    problem, _ = weighted(QUESTION, 2)
    point = DualPoint.of(problem, cells)
    bounds = [PairBound(problem, point, d).certified(share, theta) for d in (1, 2, 3)]
    assert max(bounds) <= exact
    assert bounds[-1] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
def test_the_bound_is_below_the_norm_and_close(p):
    found = solver.solve(QUESTION, p, total=False)
    lower = lower_bound(found.problem, found.cell_weights)
    exact = solve_norm(
        DenseOperator(written_out(QUESTION)),
        p,
        relation="replace",
        options=SolverOptions(rel_gap=1e-3),
    ).certificate
    assert lower <= exact.upper
    assert lower >= (0.93 if p == 2 else 0.7) * exact.lower


def test_lengths_are_half_squared_distances():
    """Of cells that take the least entries in the attributes where they differ."""
    rng = np.random.default_rng(3)
    sets = [s for k in (1, 2, 3) for s in combinations(range(3), k)]
    s = rng.random(len(sets))
    grams = []
    for n in (3, 2, 4):
        root = rng.normal(size=(n + 1, n))
        x = root.T @ root
        grams.append(x / np.sqrt(np.outer(x.diagonal(), x.diagonal())))
    total = sum(
        weight * reduce(np.kron, [x if i in t else np.ones_like(x) for i, x in enumerate(grams)])
        for weight, t in zip(s, sets, strict=True)
    )
    distances = total.diagonal()[:, None] + total.diagonal() - 2 * total
    rows = length_rows({i: float(x.min()) for i, x in enumerate(grams)}, sets)
    assert 2 * (rows @ s).max() == pytest.approx(distances.max(), rel=1e-12)


def test_weights_of_disjoint_sets():
    """Tables apart: sum b / s times sum d s is least at s in proportion to (b / d)^(1/2)."""
    b, d = np.array([4.0, 1.0]), np.array([1.0, 9.0])
    s = even_weights.even_weights(sparse.csr_matrix(b[None]), d[None])
    np.testing.assert_allclose(s[1] / s[0], 1 / 6, rtol=1e-3)


def test_slopes_of_the_norm_by_coordinates():
    rng = np.random.default_rng(8)
    problem, _ = weighted(QUESTION, 2)
    rows = {0: rng.normal(size=(3, 4)), 3: rng.normal(size=(2, 3))}
    program = apart._Program(problem, {i: y.shape for i, y in rows.items()})
    sets = len(problem.spaces.residuals) - 1
    x = np.concatenate([rng.normal(size=sets), rows[0].ravel(), rows[3].ravel()])
    step = 1e-6 * rng.normal(size=len(x))
    _, slope = program.log_norm(x, 20.0)
    difference = program.log_norm(x + step, 20.0)[0] - program.log_norm(x - step, 20.0)[0]
    assert slope @ step == pytest.approx(difference / 2, rel=1e-5)


def test_coordinates_for_distances_are_unit_columns_that_cost_less():
    question = Question(
        (20, 2, 6),
        (0, 1, 2),
        (DenseOperator(np.tri(20)), None, DenseOperator(np.tri(6))),
        ((0, 1), (1, 2), (0, 2)),
        np.ones(3),
    )
    public = solver.solve(question, 2, total=False).public
    every = [s for k in (1, 2, 3) for s in combinations(range(3), k)]
    weight = dict(zip(map(frozenset, public.sets), public.precisions, strict=True))
    grams = {i: entry.rows.T @ entry.rows for i, entry in public.attributes.items()}
    grams[1] = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for i, entry in public.attributes.items():
        np.testing.assert_allclose(grams[i].diagonal(), 1, rtol=1e-12)
        stacked = np.vstack([np.ones(len(grams[i])), entry.rows])
        np.testing.assert_allclose(stacked @ entry.inverse, np.eye(len(stacked)), atol=1e-9)
    gram = sum(
        weight.get(frozenset(s), 0.0)
        * reduce(np.kron, [grams[i] if i in s else np.ones_like(grams[i]) for i in range(3)])
        for s in every
    )
    distances = gram.diagonal()[:, None] + gram.diagonal() - 2 * gram
    A = written_out(question)
    centred = A - A.mean(axis=1, keepdims=True)
    value = np.sqrt(np.trace(centred @ np.linalg.pinv(gram_without_mean(gram), 1e-11) @ centred.T))
    exact = solve_norm(
        DenseOperator(A), 2, relation="replace", options=SolverOptions(rel_gap=1e-3)
    ).certificate
    assert exact.lower <= value * np.sqrt(distances.max()) <= 1.02 * exact.upper


def gram_without_mean(gram):
    """P X P: what is left of a Gram matrix where the total is known."""
    centred = gram - gram.mean(axis=0)
    return centred - centred.mean(axis=1, keepdims=True)
