"""Both bounds of a certificate, recomputed in extended precision from the arrays alone.

Singular values come from one-sided Jacobi rotations. Offsets, scales and squares stay in range: an
extended number has exponents to 10^4932.
"""

import numpy as np

E = np.longdouble
SLACK = E(2) ** -58
"""Relative; sixteen times the rounding of an extended number."""


def p_norm(values, p):
    """norm(values)_p of non-negative values."""
    top = values.max(initial=E(0))
    if top == 0 or np.isinf(p):
        return top
    return top * ((values / top) ** E(p)).sum() ** (1 / E(p))


def nuclear_norm(matrix):
    """Sum of the singular values."""
    columns = np.array(matrix.T if matrix.shape[0] >= matrix.shape[1] else matrix, dtype=E)
    top = abs(columns).max(initial=E(0))
    if top == 0:
        return top
    columns /= top
    for _ in range(60):
        turned = False
        for i in range(len(columns) - 1):
            for j in range(i + 1, len(columns)):
                turned |= _rotate(columns, i, j)
        if not turned:
            break
    return top * np.sqrt((columns**2).sum(axis=1)).sum()


def _rotate(columns, i, j):
    x, y = columns[i], columns[j]
    a, b, c = x @ x, y @ y, x @ y
    if abs(c) <= E(1e-19) * np.sqrt(a * b) or c == 0:
        return False
    half = (b - a) / (2 * c)
    t = 1 / (abs(half) + np.hypot(1, half))
    t = t if half >= 0 else -t
    cosine = 1 / np.sqrt(1 + t * t)
    columns[i], columns[j] = cosine * (x - t * y), cosine * (t * x + y)
    return True


def differences(matrix):
    """All columns of A (cells), or their differences (pairs), and the pairs."""
    first, second = np.triu_indices(matrix.shape[1], 1)
    return matrix[:, first] - matrix[:, second], first, second


def lower(A, u, w, p):
    """The nuclear norm for the weights u and w, which are normalised here."""
    A, u, w = (np.asarray(array, dtype=E) for array in (A, u, w))
    q = np.inf if p == 2 else (1.0 if np.isinf(p) else E(p) / (E(p) - 2))
    u = u / p_norm(u, q)
    if w.ndim == 2:
        A, first, second = differences(A)
        w = w[first, second]
    w = w / w.sum()
    return nuclear_norm(np.sqrt(u)[:, None] * A * np.sqrt(w))


def upper(A, strategy, right_inverse, p, relation):
    """The value of the factorization, and what it misses of A added.

    Any L will do: A B in double precision, as a certificate has it, or A B itself.
    """
    exponent = int(np.frexp(abs(np.asarray(A)).max())[1])
    A = np.ldexp(A, -exponent)
    if relation == "replace":
        # only vectors that sum to zero count, and bases with columns that do
        rounded = (A[:, :-1] - A[:, -1:]) @ right_inverse[:-1]
        A, R = np.asarray(A, dtype=E), np.asarray(strategy, dtype=E)
        A, R = A - A[:, -1:], R - R[:, -1:]
        exact = A[:, :-1] @ np.asarray(right_inverse[:-1], dtype=E)
        sensitivity, more = _norms(differences(R)[0].T).max(), np.sqrt(E(2))
    else:
        rounded = A @ right_inverse
        A, R = np.asarray(A, dtype=E), np.asarray(strategy, dtype=E)
        exact = A @ np.asarray(right_inverse, dtype=E)
        sensitivity, more = _norms(R.T).max(), E(1)
    return np.ldexp(E(1), exponent) * min(
        p_norm(_norms(L), p) * sensitivity + more * p_norm(_norms(A - L @ R), p)
        for L in (np.asarray(rounded, dtype=E), exact)
    )


def _norms(rows):
    top = abs(rows).max(initial=E(0))
    return top * np.sqrt(((rows / top) ** 2).sum(axis=1)) if top > 0 else np.zeros(len(rows), E)
