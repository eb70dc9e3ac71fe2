r"""Whether several releases are about the same data, from their measurements alone.

Let y_f = R_f x_f + noise of unit variance, with U_f an orthonormal basis of the columns of R_f, and
U one of those of R = [R_1; R_2; ...]. If all x_f are the same x, the part of y = [y_1; y_2; ...] in
the columns of the R_f but not in those of R,

    T = sum_f ||U_f^T y_f||^2 - ||U^T y||^2 = ||P y||^2,    P = diag(U_f U_f^T) - U U^T,

is noise alone. P is a projection of rank d = sum_f rank(R_f) - rank(R), the number of answers that
two releases have in common. For Gaussian noise T has the chi-square law of d degrees of freedom;
in general the mean is d and, with k_i the excess kurtosis of the noise (3 of Laplace noise),

    Var T = 2 d + sum_i k_i P_ii^2,

and T is compared with c chi^2_nu of this mean and variance. This is post-processing: it costs no
privacy.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

REFUSED, DOUBTFUL = 1e-6, 1e-3
"""Probabilities under equal data below which releases are refused, or doubted."""
RELATIVE_RANK = 1e-9
"""Eigenvalues of R^T R below this part of the largest one are rounding."""


def require_agreement(
    matrices: Sequence[Array], values: Sequence[Array], kurtoses: Sequence[Array]
) -> None:
    """Refuse releases that are about different data.

    Args:
        matrices: R_f, for noise of unit variance, shape (r_f, n).
        values: y_f, shape (r_f,).
        kurtoses: excess kurtosis of the noise of each, shape (r_f,).

    Raises:
        InvalidInputError: equal data would differ as much with a probability below 1e-6.
    """
    probability, common = agreement_test(matrices, values, kurtoses)
    told = f"on the {common} answers that they have in common they differ more than their noise"
    if probability < REFUSED:
        raise InvalidInputError(
            f"the releases are about different data: {told} explains (p = {probability:.1g});"
            " ask each of them"
        )
    if probability < DOUBTFUL:
        warnings.warn(
            f"the releases are perhaps about different data: {told} usually does"
            f" (p = {probability:.1g})",
            stacklevel=3,
        )


def agreement_test(
    matrices: Sequence[Array], values: Sequence[Array], kurtoses: Sequence[Array]
) -> tuple[float, int]:
    """The probability that equal data differ at least as much, and d; arguments as above."""
    bases = [_basis(matrix) for matrix in matrices]
    whole = _basis(np.vstack(matrices))
    degrees = sum(basis.shape[1] for basis in bases) - whole.shape[1]
    if degrees <= 0:
        return 1.0, 0
    y = np.concatenate(values)
    parts = sum(float(np.square(b.T @ v).sum()) for b, v in zip(bases, values, strict=True))
    statistic = parts - float(np.square(whole.T @ y).sum())
    own = np.concatenate([np.square(basis).sum(axis=1) for basis in bases])
    diagonal = own - np.square(whole).sum(axis=1)
    variance = 2 * degrees + float(np.concatenate(kurtoses) @ np.square(diagonal))
    scale = variance / (2 * degrees)
    return float(scipy.special.chdtrc(degrees / scale, max(statistic, 0.0) / scale)), degrees


def _basis(matrix: Array) -> Array:
    """Orthonormal columns that span those of a matrix."""
    rows, columns = matrix.shape
    gram = matrix @ matrix.T if rows < columns else matrix.T @ matrix
    eigenvalues, vectors = np.linalg.eigh(gram)
    kept = eigenvalues > RELATIVE_RANK * max(eigenvalues[-1], 0.0)
    if rows < columns:
        return np.asarray(vectors[:, kept])
    return np.asarray(matrix @ vectors[:, kept] / np.sqrt(eigenvalues[kept]))
