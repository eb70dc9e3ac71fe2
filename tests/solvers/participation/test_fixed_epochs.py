"""Fixed epochs: blocks against dense inverses, both bounds against what X is worth."""

import numpy as np
import pytest

from pmldesign_solvers.norm import SolverOptions
from pmldesign_solvers.participation import (
    Epochs,
    fixed_epochs,
    full_gram,
    neighbouring_entries,
    resolvent_blocks,
)
from pmldesign_solvers.streams import RunningSums, zolotarev


def plain(n):
    return RunningSums(np.ones(n - 1), np.ones(n), np.ones(n))


def uneven(n, rng):
    rates, queries, steps = rng.uniform(0.5, 1, n - 1), rng.uniform(0.5, 2, n), rng.uniform(1, 2, n)
    return RunningSums(rates, queries, steps)


def dense(sums):
    n = sums.cells
    matrix = np.zeros((n, n))
    for t in range(n):
        for s in range(t + 1):
            matrix[t, s] = np.prod(sums.rates[s:t])
    return np.sqrt(sums.query_squares)[:, None] * matrix * np.sqrt(sums.step_squares)


def random_weights(epochs, rng):
    b, m, n = epochs.every, epochs.members, epochs.sums.cells
    blocks, full = np.zeros((b, m, m)), np.zeros((n, n))
    for c in range(b):
        steps = np.arange(c, n, b)
        root = rng.normal(size=(steps.size, steps.size))
        block = root @ root.T + 0.1 * np.eye(steps.size)
        blocks[c, : steps.size, : steps.size] = block
        full[np.ix_(steps, steps)] = block
    return blocks, full


@pytest.mark.parametrize(("n", "b"), [(12, 4), (11, 4), (9, 4), (23, 5), (8, 2), (7, 2), (13, 6)])
def test_entries_of_resolvents_are_those_of_inverses(n, b):
    rng = np.random.default_rng(n)
    epochs = Epochs(uneven(n, rng), b)
    blocks, full = random_weights(epochs, rng)
    A = dense(epochs.sums)
    nodes = zolotarev(1e-3, 1e3, 5)
    inverse = np.linalg.inv(A.T @ A)
    Y = sum(
        weight * np.linalg.inv(inverse + pole**2 * full)
        for pole, weight in zip(nodes.poles, nodes.weights, strict=True)
    )
    tolerance = 1e-12 * Y.max()
    shown = resolvent_blocks(epochs, blocks, nodes)
    for c in range(b):
        steps = np.arange(c, n, b)
        part = shown[c][: steps.size, : steps.size]
        assert np.allclose(part, Y[np.ix_(steps, steps)], rtol=0, atol=tolerance)
    assert np.allclose(full_gram(epochs, blocks, nodes), Y, rtol=0, atol=tolerance)
    beside = neighbouring_entries(epochs, blocks, nodes)
    assert np.allclose(beside, np.diagonal(Y, 1), rtol=0, atol=tolerance)
    products = A @ full @ A.T
    assert epochs.trace(blocks) == pytest.approx(np.trace(products), rel=1e-13)
    assert np.allclose(epochs.row_norms(blocks), np.diag(products), rtol=1e-12)


@pytest.mark.parametrize(("n", "b"), [(48, 16), (45, 16), (60, 6)])
def test_both_bounds_are_what_the_matrices_say(n, b):
    epochs = Epochs(plain(n), b)
    solution = fixed_epochs.solve(epochs, SolverOptions(1e-6, 100))
    assert solution.certificate.gap <= 1e-6
    A = dense(epochs.sums)
    W = np.zeros((n, n))
    for c in range(b):
        steps = np.arange(c, n, b)
        block = solution.dual_w[c][: steps.size, : steps.size]
        W[np.ix_(steps, steps)] = block
        assert np.ptp(np.diag(block)) <= 1e-14
        assert np.linalg.eigvalsh(block)[0] > 0
    norm = np.sqrt(np.linalg.eigvalsh(A @ W @ A.T)).sum() / np.sqrt(np.diag(W)[:b].sum())
    assert solution.certificate.lower <= norm * (1 + 1e-12)
    assert solution.certificate.lower >= norm * (1 - 1e-7)
    X = full_gram(epochs, solution.weights, solution.nodes)
    square = max(np.abs(X[np.ix_(s, s)]).sum() for s in (np.arange(c, n, b) for c in range(b)))
    reached = np.sqrt(np.trace(A @ np.linalg.solve(X, A.T)) * square)
    assert reached <= solution.certificate.upper <= reached * (1 + 1e-6)
    assert square <= 1 + 1e-12


def test_any_weights_bound_from_below():
    rng = np.random.default_rng(3)
    epochs = Epochs(plain(24), 6)
    best = fixed_epochs.solve(epochs, SolverOptions(1e-7, 100)).certificate
    for _ in range(5):
        roots = rng.normal(size=(6, 4, 4))
        roots /= np.linalg.norm(roots, axis=2)[:, :, None]
        blocks = rng.dirichlet(np.ones(6))[:, None, None] * (roots @ np.swapaxes(roots, 1, 2))
        assert fixed_epochs.lower_bound(epochs, blocks) <= best.upper


def test_published_optima_lie_within_the_bounds():
    # jax-privacy's dense optimizer, 10 minutes: an upper bound; the lower one is the design's own
    for n, k, low, high in [(256, 4, 5.211944, 5.211953), (256, 16, 13.303638, 13.303658)]:
        solution = fixed_epochs.solve(Epochs(plain(n), n // k), SolverOptions(1e-5, 60))
        assert solution.certificate.lower / np.sqrt(n) <= high
        assert solution.certificate.upper / np.sqrt(n) >= low
        assert solution.certificate.gap <= 1e-5
