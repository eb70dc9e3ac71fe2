"""Other ways to compute gamma_(p)(A), each reporting its iterates: `peer(operator, p, report)`.

`report(value, gram, steps=...)` gets two functions, of the peer's own objective as a value of
gamma_(p) and of the Gram matrix G of its strategy, and what it has spent so far. It raises what
ends the run; what happens inside it is not timed.

fixed-point, p = 2 (Denisov, McMahan, Rush, Smith and Thakurta 2022, plain). With K = A^T A and
weights v on the cells, v <- diag( (V^(1/2) K V^(1/2))^(1/2) ), V = diag(v), and
G = V^(-1/2) (V^(1/2) K V^(1/2))^(1/2) V^(-1/2). One eigendecomposition a step.

l-bfgs, p = 2 (Yuan et al. 2016 for the convex problem in G; McKenna et al. 2018, the workload as a
matrix, for the method). Minimises trace(K G^-1) over G with diagonal 1; the unknowns are the
entries below it, with derivative -2 G^-1 K G^-1; started at K^(1/2) scaled to diagonal 1. Where G
is not positive definite the objective is 100 times the smallest seen, with derivative 0: scipy's
line search backtracks from a large number, but gives up at inf. One Cholesky factorization, one
inverse and two products a call.

jax-privacy, p = 2 and inf: `jax_privacy.matrix_factorization.dense.optimize`, mean and max error.
At p = 2 it gets an n x n root of A^T A, which has the same error, in place of a taller A.

References:
    Denisov et al., Improved differential privacy for SGD via optimal private linear operators on
    adaptive streams, NeurIPS 2022.
    Yuan, Yang, Zhang and Hao, Convex optimization for linear query processing under approximate
    differential privacy, KDD 2016.
    McKenna, Miklau, Hay and Machanavajjhala, Optimizing error of high-dimensional statistical
    queries under differential privacy, VLDB 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy import optimize
from scipy.linalg import cholesky, lapack

from pmldesign_solvers.operators.operator import Array, Operator


class Report(Protocol):
    """Takes an iterate; raises what ends the run."""

    def __call__(self, value: Callable[[], float], gram: Callable[[], Array], **spent: int) -> None:
        """Take an iterate."""
        ...

    def restart(self) -> None:
        """Set the clock to zero and call what was before startup."""
        ...


def fixed_point(operator: Operator, _p: float, report: Report) -> None:
    K = operator.gram(np.ones(operator.shape[0]))
    v = np.ones(len(K))
    for step in range(1, 100_000):
        scale = np.sqrt(v)
        eigenvalues, vectors = np.linalg.eigh(scale[:, None] * K * scale)
        values = np.sqrt(np.maximum(eigenvalues, 0.0))
        root = (vectors * values) @ vectors.T

        def gram(root: Array = root, scale: Array = scale) -> Array:
            G = root / scale / scale[:, None]
            norms = np.sqrt(G.diagonal())
            return G / norms / norms[:, None]

        def value(gram: Callable[[], Array] = gram) -> float:
            return float(np.sqrt(np.trace(np.linalg.solve(gram(), K))))

        report(value, gram, steps=step, decompositions=step)
        v = root.diagonal().copy()


def l_bfgs(operator: Operator, _p: float, report: Report) -> None:
    K = operator.gram(np.ones(operator.shape[0]))
    n = len(K)
    below = np.tri(n, k=-1, dtype=bool)
    spent = {"steps": 0, "factorizations": 0}
    best: tuple[float, Array] = (np.inf, np.empty(0))

    def gram(x: Array) -> Array:
        G = np.eye(n)
        G[below] = x
        return G

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal best
        spent["factorizations"] += 1
        factor, failed = lapack.dpotrf(gram(x), lower=True, overwrite_a=True)
        if failed:
            return 100 * best[0], np.zeros_like(x)
        half, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
        inverse = np.tril(half) + np.tril(half, -1).T
        product = K @ inverse
        value = float(product.trace())
        if value < best[0]:
            best = value, x.copy()
        return value, -2 * (inverse @ product)[below]

    def after_step(_x: Array) -> None:
        spent["steps"] += 1
        value, x = best
        report(lambda: float(np.sqrt(value)), lambda: gram(x) + np.tril(gram(x), -1).T, **spent)

    eigenvalues, vectors = np.linalg.eigh(K)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 1e-12 * eigenvalues[-1]))) @ vectors.T
    norms = np.sqrt(root.diagonal())
    start = (root / norms / norms[:, None])[below]
    objective(start)
    after_step(start)
    optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={"maxiter": 10**6, "maxfun": 10**6, "ftol": 0.0, "gtol": 0.0},
    )


def jax_privacy(operator: Operator, p: float, report: Report) -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import dense

    m, n = operator.shape
    if p == 2:
        matrix = cholesky(operator.gram(np.ones(m)))
        reduction, scale = jnp.mean, n
    else:
        matrix, reduction, scale = operator.to_dense(), jnp.max, 1
    before = None

    def after_step(info: object) -> None:
        # the loss is that of the parameters before the step; the first two steps compile
        nonlocal before
        if info.step < 2:
            report.restart()
        else:
            loss, strategy = info.loss.block_until_ready(), before
            report(
                lambda: float(np.sqrt(scale * float(loss))),
                lambda: np.asarray(strategy),
                steps=info.step,
            )
        before = info.params

    dense.optimize(
        n,
        A=jnp.asarray(matrix),
        reduction_fn=reduction,
        max_optimizer_steps=10**6,
        callback=after_step,
    )


PEERS = {"fixed-point": fixed_point, "l-bfgs": l_bfgs, "jax-privacy": jax_privacy}
