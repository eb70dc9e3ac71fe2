r"""How far from the best are strategies for Laplace noise? Lower bounds for all of them, few cells.

    python benchmarks/laplace_bounds.py [--starts 8] [--seconds 20]

R has columns of l1 norm at most 1 (add-remove, epsilon = 1). The extreme points of such matrices
have a single entry in every column, 1 or -1, so that R = sum_i a_i R_i, a >= 0 with sum at most 1,
R_i groups of cells with signs: up to 11 for three cells and 49 for four, whatever the number of
rows of R. Take vectors w_t with sum_t w_t w_t^T = A^T A, and any v_t. By Cauchy and Schwarz, the
triangle inequality and Hoelder,

    err_2^2 / 2 = sum_t w_t^T (R^T R)^-1 w_t >= sum_t (w_t^T v_t)^2 / norm(R v_t)^2,
    norm(R v_t) <= sum_i a_i norm(R_i v_t),
    err_2^2 / 2 >= (sum_t |w_t^T v_t|^(2/3))^3 / (max_i sum_t norm(R_i v_t))^2,

which every choice of w and v proves; a search makes it large. (The squared norms of all v_t
together instead of each norm give the bound of Gaussian noise, sqrt(2) gamma_(2)(A).)
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize

from pmldesign.designs.laplace.search import laplace_design
from pmldesign.privacy.guarantees import PureDP
from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.operator import Array

NAMES = (
    *("prefix:2", "prefix:3", "all-range:3", "window:3,2"),
    *("prefix:4", "all-range:4", "haar:4", "window:4,2", "marginals:2,2,ways=1"),
)
SHARPNESS = (20.0, 100.0, 1000.0)
"""Exponents of the power mean that stands for the maximum over i, one after the other."""
ROUNDING = 1e-9
"""Part of the bound that its own arithmetic may be off by, with room."""


def signed_groups(cells: int) -> Array:
    """R_i^T R_i of all groupings of the cells with signs, up to the sign of a group, (i, n, n)."""
    distinct = {}
    for labels in _groupings(cells):
        same = np.equal.outer(labels, labels)
        for signs in itertools.product((1.0, -1.0), repeat=cells):
            gram = np.where(same, np.multiply.outer(signs, signs), 0.0)
            distinct[gram.tobytes()] = gram
    return np.array(list(distinct.values()))


def _groupings(cells: int) -> Iterator[list[int]]:
    """Numbers of groups, in the order in which they appear."""
    if not cells:
        yield []
        return
    for labels in _groupings(cells - 1):
        for label in range(max(labels, default=-1) + 2):
            yield [*labels, label]


def proved(W: Array, V: Array, grams: Array) -> float:
    """The bound on err_2 that rows w_t of W and v_t of V prove for the queries W, rounded down."""
    products = np.abs(np.einsum("tj,tj->t", W, V))
    squares = np.einsum("tj,ijk,tk->it", V, grams, V)
    longest = float(np.sqrt(np.maximum(squares, 0.0)).sum(axis=1).max())
    return math.sqrt(2 * float((products ** (2 / 3)).sum()) ** 3) / longest * (1 - ROUNDING)


def lower_bound(A: Array, *, terms: int, starts: int, seed: int = 0) -> float:
    """The largest bound on err_2 of queries A of rank n that a search proves.

    Args:
        A: shape (m, n).
        terms: number of vectors w_t, at least n.
        starts: random starts.
        seed: of the starts.
    """
    n, rng = A.shape[1], np.random.default_rng(seed)
    root, grams = np.linalg.qr(A, mode="r"), signed_groups(A.shape[1])
    best = 0.0
    for _ in range(starts):
        X = np.linalg.qr(rng.normal(size=(terms, n)))[0]
        x = np.concatenate([(X @ root).ravel() + 0.1 * rng.normal(size=X.size), X.ravel()])
        for sharpness in SHARPNESS:
            minimum = minimize(
                _objective,
                x,
                args=(root, grams, sharpness),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 500},
            )
            x = minimum.x
        V, X = x.reshape(2, terms, n)
        left, _, right = np.linalg.svd(X, full_matrices=False)
        best = max(best, proved(left @ right @ root, V, grams))
    return best


def _objective(x: Array, root: Array, grams: Array, sharpness: float) -> tuple[float, Array]:
    """Minus the logarithm of the bound's square, smoothed, and its gradient in V and X.

    W = Q root with the polar factor Q of X, so that W^T W is that of the queries.
    """
    terms = x.size // (2 * len(root))
    V, X = x.reshape(2, terms, -1)
    left, sizes, right = np.linalg.svd(X, full_matrices=False)
    W = left @ right @ root
    products = np.einsum("tj,tj->t", W, V)
    powers = (products**2 + 1e-14) ** (1 / 3)
    images = np.einsum("ijk,tk->itj", grams, V)
    lengths = np.sqrt(np.maximum(np.einsum("itj,tj->it", images, V), 0.0) + 1e-14)
    sums = lengths.sum(axis=1)
    top = sums.max()
    weights = (sums / top) ** sharpness
    value = 2 * math.log(top) + 2 * math.log(weights.sum()) / sharpness - 3 * math.log(powers.sum())
    slopes = 2 * products * powers / (products**2 + 1e-14) / powers.sum()
    shares = weights / weights.sum() / sums
    along_V = 2 * np.einsum("i,it,itj->tj", shares, 1 / lengths, images) - slopes[:, None] * W
    pull = -slopes[:, None] * V @ root.T
    inner = left.T @ pull @ right.T
    turned = (inner - inner.T) / np.add.outer(sizes, sizes)
    along_X = left @ turned @ right + (pull @ right.T - left @ inner) / sizes @ right
    return value, np.concatenate([along_V.ravel(), along_X.ravel()])


def main(arguments: list[str]) -> None:
    """Print for every workload the two bounds, the design and the gap."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--effort", default="thorough")
    parser.add_argument("workloads", nargs="*", default=NAMES)
    options = parser.parse_args(arguments)
    print("workload              Gaussian    bound   design    gap")
    for name in options.workloads:
        workload = parse_workload(name)
        A = workload.to_dense()
        gaussian = math.sqrt(2) * solve_norm(workload, 2.0).certificate.lower
        bound = lower_bound(A, terms=2 * A.shape[1] + 1, starts=options.starts)
        design = laplace_design(workload, PureDP(1.0), effort=options.effort)
        error = design.mechanism.error(2)
        print(f"{name:20} {gaussian:9.4f} {bound:8.4f} {error:8.4f} {error / bound - 1:6.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
