"""The matrices of a strategy file, as they are or written out, which `dense` checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verify.arithmetic import rounding
from pmldesign.verify.arithmetic.intervals import dual_norm, root
from pmldesign.verify.forms.dense import Dense
from pmldesign.verify.forms.form import Claims, Form
from pmldesign.verify.forms.known_tables import left_open
from pmldesign.verify.forms.products import lower_of_factors
from pmldesign.verify.forms.written import centred, pseudo_inverse
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Checks, Header
from pmldesign.verify.streams.participation import Pattern, dual_factor

ANSWERED = 2**26
"""Most entries of the reconstruction L of a strategy that is written out."""


def dense_of(form: Form, claims: Claims, checks: Checks) -> Dense | None:
    """The matrices, if there are any and their shapes fit."""
    header, arrays, queries, _ = claims
    replace, pattern = header["neighbours"] == "replace", header.get("participation")
    R = form.matrix(arrays)
    if R is None:
        for name in ("lower", "upper", "sensitivity", "guarantee_numbers", "error"):
            if name in header:
                checks.unchecked(name, "the strategy is too large for its matrix")
        return None
    R = np.asarray(R, dtype=np.float64)
    if "strategy" not in arrays and replace:
        R = centred(R)
    A, total = _matrix(header, queries)
    L = arrays.get("reconstruction")
    if A is not None and A.shape[1] == R.shape[1] and A.shape[0] * len(R) <= ANSWERED:
        if "right_inverse" in arrays:
            L = A @ arrays["right_inverse"]
        elif L is None:
            L = _reconstruction(A, R, replace=replace)
    duals = (arrays["dual_u"], arrays["dual_w"]) if "dual_u" in arrays else None
    fits = R.ndim == 2 and (L is None or L.shape[1:] == R.shape[:1])
    lower = None
    if A is not None:
        m, n = A.shape
        fits = fits and R.shape[1] == n and (L is None or L.shape[0] == m)
        lower = _lower(form, claims, A)
        if duals is not None and (duals[0].shape, duals[1].shape) != (
            (m,),
            (n, n) if replace else (n,),
        ):
            fits = fits and (lower is not None or "strategy" not in arrays)
            duals = None
    checks.state("shapes", bool(fits), "of the arrays")
    groups, left = arrays.get("groups"), None
    if "counted" in arrays:
        left = left_open(arrays["counted"], arrays["sizes"])
        fits = fits and header["neighbours"] == "replace" and len(left) == R.shape[1]
        checks.state("tables", bool(fits), "of these cells, beside which a record is replaced")
    elif groups is not None or "known" in header:
        fits = fits and groups is not None and groups.shape == R.shape[1:]
        fits = fits and header["neighbours"] == "replace"
        checks.state("groups", bool(fits), "of cells, within which a record is replaced")
        _check_groups(groups, queries.known, checks)
    if not fits:
        return None
    return Dense(
        header,
        A if L is not None else None,
        L,
        R,
        duals,
        groups=groups,
        left=left,
        pattern=None if pattern is None else Pattern.of(pattern),
        lower=lower,
        weaker=form.weaker,
        written="strategy" in arrays,
        queries=total,
    )


def _check_groups(groups: Any, known: Queries | None, checks: Checks) -> None:
    """Whether groups are of equal columns of queries whose answers tell their numbers."""
    if known is None or known.matrix is None:
        checks.unchecked("known", "the known answers have no name that tells them")
        return
    columns, same = np.unique(known.matrix, axis=1, return_inverse=True)
    pairs = set(zip(same.ravel().tolist(), groups.tolist(), strict=False))
    count = columns.shape[1]
    told = len(pairs) == count == len(set(groups.tolist())) and same.size == groups.size
    told = told and int(np.linalg.matrix_rank(columns)) == count
    checks.state("known", told, "answers that tell the number of records in each group")


def _matrix(header: Header, queries: Queries) -> tuple[Any, int | None]:
    """A, or at p = 2 a square root of A^T A and the number of queries where A has too many."""
    if queries.matrix is not None or queries.gram is None or float(header["p"]) != 2:
        return queries.matrix, None
    gram = queries.gram()
    values, vectors = scipy.linalg.eigh(gram)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, queries.count


def _reconstruction(A: Any, R: Any, *, replace: bool) -> Any:
    """A R^+; under replace on differences of cells, where R may have full rank."""
    if replace:
        A, R = A[:, :-1] - A[:, -1:], R[:, :-1] - R[:, -1:]
    return A @ pseudo_inverse(R)


def _lower(form: Form, claims: Claims, A: Any) -> Any:
    """What dual weights prove that are not those of single queries and cells; None without any."""
    header, arrays = claims[:2]
    if "dual_u" not in arrays:
        factors = claims.queries.factors() if claims.plain else None
        return factors and lower_of_factors(arrays, factors, float(header["p"]))
    proved = form.lower(claims)
    u, w = arrays["dual_u"], arrays["dual_w"]
    if proved is None and w.ndim == 3 and "participation" in header:
        steps, schema = u.size, Pattern.of(header["participation"])
        count, width = w.shape[:2]
        classes = np.arange(count)[:, None] + count * np.arange(width)
        patterns = arrays.get("dual_steps", classes)
        if patterns.shape != (count, width) or not schema.allows(patterns):
            raise ValueError("dual weights are for steps of which a person cannot take part in all")
        F, omega = dual_factor(w, patterns, steps)
        size = root(dual_norm(u.tolist(), float(header["p"])) * arb(omega))
        proved = rounding.factored_norm(A[:steps, :steps], u, F) / size
    return proved
