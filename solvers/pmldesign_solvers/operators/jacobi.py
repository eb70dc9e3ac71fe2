"""Singular values that are accurate to relative precision, however small.

One-sided Jacobi rotations compute those of D_1 X D_2, for any diagonal matrices D_1 and D_2, as
accurately as the condition number of X allows; other methods, only as parts of the largest.

References:
    Drmac and Veselic, New fast and accurate Jacobi SVD algorithm, SIAM J. Matrix Anal. 29, 2008.
"""

from __future__ import annotations

import scipy

from pmldesign_solvers.operators.operator import Array

JACOBI_ENTRIES = 2**20
"""Largest m * n for which singular values are computed like that."""


def jacobi_svd(matrix: Array, rank: int) -> tuple[Array, Array]:
    """The largest singular values of a tall matrix, shape (rank,), and right vectors (n, rank)."""
    # joba=2: relative accuracy for rows and columns of any scale; jobu=3, jobv=0: no U, all of V
    values, _, vectors, work, _, _ = scipy.linalg.lapack.dgejsv(
        matrix, joba=2, jobu=3, jobv=0, jobr=0, jobp=0
    )
    return values[:rank] * (work[0] / work[1]), vectors[:, :rank]
