"""Strategies in closed form: identity, the square root, and products.

Square root: with f(0) = 1 and f(k) = (1 - 1/(2k)) f(k - 1), the lower-triangular Toeplitz matrix
R_ij = f(i - j) satisfies R R = prefix sums, as the f(k) are the coefficients of (1 - t)^(-1/2).
On prefix sums L = R, and both the squared sensitivity and the largest variance are
sum_{k < n} f(k)^2, about log(n) / pi.

Kronecker products: column norms multiply, so the sensitivity of R_1 x R_2 is the product of the
sensitivities; (R_1 x R_2)^+ = R_1^+ x R_2^+, so on A_1 x A_2 variances multiply too.

References:
    Fichtenberger, Henzinger and Upadhyay, Constant matters: fine-grained error bound on
    differentially private continual observation, 2023.
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Appendix G.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from pmldesign.arguments import whole
from pmldesign.privacy.outward import root_above
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.regular import RegularStrategy
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.limits import WRITTEN_CELLS


def identity(cells: int) -> Strategy:
    """The identity: every cell is measured by itself; never materialized beyond WRITTEN_CELLS.

    Raises:
        InvalidInputError: `cells` is not an integer of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'identity'", (n, 1))
    if n > WRITTEN_CELLS:
        return IdentityAndRows("identity", np.ones(n), np.zeros((0, n)))
    return RegularStrategy(
        "identity",
        np.eye(n),
        invert=lambda: np.eye(n),
        distances={"l1": 2.0, "l2": root_above(2.0)} if n > 1 else {"l1": 0.0, "l2": 0.0},
    )


def square_root(cells: int) -> Strategy:
    """The lower-triangular Toeplitz square root of prefix sums.

    Raises:
        InvalidInputError: `cells` is not an integer of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'square-root'", (n, n))
    from pmldesign_solvers.participation.scaled_toeplitz import root

    return Strategy("square-root", np.tril(scipy.linalg.toeplitz(root(n))))


def product_strategy(strategies: Sequence[Strategy]) -> Strategy:
    """The Kronecker product R_1 x R_2 x ..., the last factor's cells varying fastest.

    Returns:
        Named after the factors: their common name, or their names joined by " x ".

    Raises:
        InvalidInputError: no strategies are given.
    """
    names = list(dict.fromkeys(strategy.name for strategy in strategies))
    name = names[0] if len(names) == 1 else " x ".join(s.name for s in strategies)
    from pmldesign.strategies.kronecker import ProductStrategy

    return ProductStrategy(name, strategies)
