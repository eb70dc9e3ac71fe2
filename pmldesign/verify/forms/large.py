r"""Strategies of blocks, and of an identity with rows, that are too large for their matrices.

Blocks, R = sum_b R_b (x)_j v_{j,b_j}^T over columns of orthonormal bases V_j:

    norm of a column (x, y)      sum_b norm(R_b e_x)^k prod_j |V_j[y_j, b_j]|^k, k = 1 or 2
    variance of a query (x) a    sum_b |a_i R_b^+|^2 prod_j (a_j^T v_{j,b_j})^2, i the blocks' own
                                 attribute; answered if what no block measures of it is 0

Identity and rows, R = [diag(d); T]: with C = (1 + T D^-2 T^T)^-1 (Woodbury) the variance of a query
a is |a D^-1|^2 - |a D^-2 T^T C^(1/2)|^2.
"""

from __future__ import annotations

import numpy as np

from pmldesign.verify.forms.far_columns import along
from pmldesign.verify.forms.structured import Computed, check_computed, rounded, spread_of
from pmldesign.verify.forms.unions import lower_bound
from pmldesign.verify.forms.written import pseudo_inverse
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header

MISSED = 1e-9
"""Part of a query that may lie outside of what is measured: rounding."""


def check_blocks(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy of blocks, for a union of products; add-remove neighbours."""
    free, numbers = int(arrays["free"]), arrays["combinations"]
    bases = [arrays[f"basis_{j}"] for j in range(numbers.ndim)]
    blocks = [arrays[f"block_{b}"] for b in range(int(numbers.max()) + 1)]
    sizes = [len(basis) for basis in bases]
    sizes.insert(free, blocks[0].shape[1])
    off = max(float(np.abs(V.T @ V - np.eye(len(V))).max()) for V in bases)
    checks.state("bases", off < MISSED, "are orthonormal")
    if not checks.state("sizes", sizes == list(queries.sizes), "those of the workload"):
        return
    lengths = {}
    for norm, k in (("l1", 1), ("l2", 2)):
        sums = np.array([*[(np.abs(R) ** k).sum(axis=0) for R in blocks], 0 * blocks[0][0]])
        cube = along(sums[numbers], [np.abs(V) ** k for V in bases])
        lengths[norm] = rounded(float(cube.max()) ** (1 / k))
    variances, missed = [], 0.0
    inverses = [pseudo_inverse(R) for R in blocks]
    for table in queries.tables:
        factors = [table.factor(i, n) for i, n in enumerate(sizes)]
        a = factors.pop(free)
        shares = [(A @ V) ** 2 for A, V in zip(factors, bases, strict=True)]
        images = [a @ inverse for inverse in inverses]
        lengths_of = [(image**2).sum(axis=1) for image in images]
        parts = np.array([*lengths_of, 0 * lengths_of[0]])
        variances.append(table.weight**2 * along(parts[numbers], shares).ravel())
        rest = [a - image @ R for image, R in zip(images, blocks, strict=True)]
        outside = np.array([(part**2).sum(axis=1) for part in [*rest, a]])
        whole = np.array([(a**2).sum(axis=1)] * (len(blocks) + 1))
        part = along(outside[numbers], shares) / along(whole[numbers], shares)
        missed = max(missed, float(np.sqrt(part.max())))
    checks.state("L R = A", missed < MISSED, f"but for {missed:.1e} of its rows")
    lower = lower_bound(header, arrays, queries) if "lower" in header else None
    squares = np.concatenate(variances)
    computed = Computed(spread_of((squares, 1)), squares.size, lengths.get, lower)
    check_computed(header, computed, checks)


def check_identity(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of an identity with rows; add-remove neighbours."""
    A, d, T = queries.matrix, arrays["diagonal"], arrays["rows"]
    fits = d.shape == T.shape[1:] == A.shape[1:] and bool((d > 0).all())
    if not checks.state("shapes", fits, "of the arrays, and a positive diagonal"):
        return
    scaled = T / d
    values, vectors = np.linalg.eigh(np.eye(len(T)) + scaled @ scaled.T)
    B = (scaled / d).T @ (vectors / np.sqrt(values))
    squares = ((A / d) ** 2).sum(axis=1) - ((A @ B) ** 2).sum(axis=1)
    both = np.vstack([d, T])
    lengths = {
        "l1": rounded(float(np.abs(both).sum(axis=0).max())),
        "l2": rounded(float(np.linalg.norm(both, axis=0).max())),
    }
    check_computed(header, Computed(spread_of((squares, 1)), squares.size, lengths.get), checks)
