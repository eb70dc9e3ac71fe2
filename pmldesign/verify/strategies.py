"""A strategy file: which claims it makes, and which room of this package checks them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flint import arb
from scipy import linalg

from pmldesign.verify.arithmetic import balls, rounding
from pmldesign.verify.arithmetic.intervals import dual_norm, root
from pmldesign.verify.digest import KEY, digest_of
from pmldesign.verify.distributions import check_sample
from pmldesign.verify.forms.dense import Dense, check_dense
from pmldesign.verify.forms.large import check_blocks, check_identity
from pmldesign.verify.forms.marginals import check_marginals
from pmldesign.verify.forms.marginals import lower_bound as marginals_bound
from pmldesign.verify.forms.products import check_product
from pmldesign.verify.forms.table_blocks import lower_bound as tables_bound
from pmldesign.verify.forms.tables import WEAKER_BLOCKS, check_tables
from pmldesign.verify.forms.unions import check_product_basis
from pmldesign.verify.forms.written import (
    FORMS,
    MOST_CELLS,
    cells_of,
    centred,
    kron,
    pseudo_inverse,
    written_out,
)
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import WEAKER, Checks
from pmldesign.verify.sentences import check_sentence
from pmldesign.verify.streams.intervals import check_intervals
from pmldesign.verify.streams.participation import Pattern, dual_factor
from pmldesign.verify.streams.running_sums import check_stream
from pmldesign.verify.streams.running_sums import lower_bound as stream_bound
from pmldesign.verify.streams.several import check_several

RELATIONS = ("add-remove", "replace")
COLUMNS = 64
"""Of the workload that are hashed at a time."""
ANSWERED = 2**26
"""Most entries of the reconstruction L of a strategy that is written out."""


def check_strategy(
    header: Mapping[str, Any], arrays: Mapping[str, Any], queries: Queries | None, checks: Checks
) -> str:
    """All checks of a strategy file.

    Args:
        header: of the file.
        arrays: of the file.
        queries: what the strategy is for; None if it is not known.
        checks: to which they are added.

    Returns:
        The arithmetic that was used.
    """
    check_digest(header, arrays, checks)
    if queries is not None:
        _check_workload(header, queries, checks)
    numbers = header.get("guarantee_numbers", {})
    promised = numbers.get("neighbours", header["neighbours"])
    if header["neighbours"] not in RELATIONS or promised != header["neighbours"]:
        checks.state("neighbours", False, "are add-remove or replace, and those of the guarantee")
    if numbers and "cells" in header:
        words = header["guarantee"].replace(repr(numbers.get("known")), "")
        check_sentence(words, numbers["kind"], [numbers, header["cells"]], checks)
    check_sample(numbers, checks)
    arithmetic = _check_form(header, arrays, queries, checks)
    if arithmetic is not None:
        return arithmetic
    strategy = _dense(header, arrays, queries or Queries(None), checks)
    if strategy is None:
        return "none"
    check_dense(strategy, checks)
    return str(strategy.arithmetic.NAME)


def _check_form(
    header: Mapping[str, Any], arrays: Mapping[str, Any], queries: Queries | None, checks: Checks
) -> str | None:
    """Checks by the structure of a strategy; None for claims that only its matrix tells."""
    if "counted" in arrays:
        return _check_beside_table(header, arrays, queries, checks)
    if queries is None or "strategy" in arrays:
        return None
    pml = header.get("guarantee_numbers", {}).get("kind") == "pml"
    gaussian = header.get("noise", "gaussian") == "gaussian"
    large = cells_of(arrays) > MOST_CELLS
    plain = not pml and header["neighbours"] == "add-remove"
    if "participation" in header:
        if not (large and "rates" in arrays and plain and gaussian):
            return None
        check_several(header, arrays, queries, checks)
        return rounding.NAME
    if large and "poles" in arrays and "rates" not in arrays and plain and gaussian:
        check_intervals(header, arrays, queries, checks)
        return rounding.NAME
    if "rates" in arrays and plain and gaussian:
        check_stream(header, arrays, queries, checks)
        return balls.NAME
    if "residuals" in arrays and queries.plain and (large or (gaussian and not pml)):
        check_marginals(header, arrays, queries, checks)
        return balls.NAME
    if large and queries.tables and ("sector_plain" in arrays or "tables" in arrays):
        check_tables(header, arrays, queries, checks)
        return rounding.NAME
    if large and plain and "block_0" in arrays and queries.tables:
        check_blocks(header, arrays, queries, checks)
        return rounding.NAME
    if large and plain and "diagonal" in arrays and queries.matrix is not None:
        check_identity(header, arrays, queries.matrix, checks)
        return rounding.NAME
    if (
        large
        and "factor_0" in arrays
        and queries.tables
        and not (plain and "weights" not in arrays and queries.factors())
    ):
        check_product_basis(header, arrays, queries, checks)
        return rounding.NAME
    factors = queries.factors()
    exact = gaussian or float(header["p"]) in (2.0, math.inf)
    if "factor_0" in arrays and "weights" not in arrays and factors and plain and exact:
        check_product(header, arrays, factors, checks)
        return rounding.NAME
    return None


def _check_beside_table(
    header: Mapping[str, Any], arrays: Mapping[str, Any], queries: Queries | None, checks: Checks
) -> str:
    """Claims of a product, or of marginals, beside a public table."""
    checks.state("neighbours", header["neighbours"] == "replace", "within groups of the table")
    if queries is None:
        checks.unchecked("form", "the queries are not known; give --workload")
        return "none"
    counted, sizes = arrays["counted"], [int(size) for size in arrays["sizes"]]
    known, public = queries.known, np.flatnonzero(counted).tolist()
    if known is None:
        checks.unchecked("known", "the known answers have no name that tells them")
    else:
        same = list(known.sizes) == sizes == list(queries.sizes) and known.is_table_of(public)
        checks.state("known", same and len(counted) == len(sizes), "the table of these attributes")
    if "residuals" in arrays and queries.plain:
        check_marginals(header, arrays, queries, checks)
        return balls.NAME
    factors, place = queries.factors(), int(arrays["place"][0]) if "place" in arrays else -1
    if factors is None or place < 0:
        checks.unchecked("form", "beside a public table, for queries of this form")
        return "none"
    after = place + 1 + len(sizes) - sum(name.startswith("factor_") for name in arrays)
    apart = all(counted[:place]) and not any(counted[place:after]) and all(counted[after:])
    checks.state("place", bool(apart), "of the factor for the open attributes")
    merged = [*factors[:place], kron(factors[place:after]), *factors[after:]]
    check_product(header, arrays, merged, checks, place)
    return rounding.NAME


def check_digest(header: Mapping[str, Any], arrays: Mapping[str, Any], checks: Checks) -> None:
    """Whether the file is as it was written."""
    if KEY in header:
        reason = "of the header and the arrays"
        checks.state("digest", header[KEY] == digest_of(header, arrays), reason)
    else:
        checks.unchecked("digest", "the file is from before there was one")


def _check_workload(header: Mapping[str, Any], queries: Queries, checks: Checks) -> None:
    """Whether A is the workload that the file speaks of."""
    A, n = queries.matrix, math.prod(queries.sizes) if queries.sizes else None
    m, n = (queries.count, n) if A is None else A.shape
    for name, value in (("queries", m), ("cells", n)):
        if name in header and value is not None:
            checks.state(name, header[name] == value, f"the workload has {value}")
    if header.get("fingerprint") is None:
        if A is not None:
            checks.unchecked("workload", "the file has no hash of it")
        return
    columns = queries.columns if A is None else lambda start, end: A[:, start:end]
    if columns is None or n is None:
        checks.unchecked("workload", "is too large for its hash")
        return
    result = hashlib.sha256(f"{m} {n}".encode())
    for start in range(0, n, COLUMNS):
        block = np.ascontiguousarray(columns(start, min(start + COLUMNS, n)) + 0.0)
        result.update(block.tobytes())
    same = result.hexdigest() == header["fingerprint"]
    checks.state("workload", same, "hash of shape and entries")


def _dense(
    header: Mapping[str, Any], arrays: Mapping[str, Any], queries: Queries, checks: Checks
) -> Dense | None:
    """The matrices, if there are any and their shapes fit."""
    replace, pattern = header["neighbours"] == "replace", header.get("participation")
    R = arrays["strategy"] if "strategy" in arrays else written_out(arrays)
    if R is None and not any(mark in arrays for mark in FORMS):
        checks.state("strategy", False, "is in none of the arrays")
        return None
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
        lower = _lower(header, arrays, A, queries)
        if duals is not None and (duals[0].shape != (m,) or duals[1].shape not in ((n,), (n, n))):
            fits = fits and (lower is not None or "strategy" not in arrays)
            duals = None
    checks.state("shapes", bool(fits), "of the arrays")
    groups = arrays.get("groups")
    if groups is not None or "known" in header:
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
        pattern=None if pattern is None else Pattern.of(pattern),
        lower=lower,
        weaker=WEAKER_BLOCKS if "sector_plain" in arrays else WEAKER,
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


def _matrix(header: Mapping[str, Any], queries: Queries) -> tuple[Any, int | None]:
    """A, or at p = 2 a square root of A^T A and the number of queries where A has too many."""
    if queries.matrix is not None or queries.gram is None or float(header["p"]) != 2:
        return queries.matrix, None
    gram = queries.gram()
    values, vectors = linalg.eigh(gram)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, queries.count


def _reconstruction(A: Any, R: Any, *, replace: bool) -> Any:
    """A R^+; under replace on differences of cells, where R may have full rank."""
    if replace:
        A, R = A[:, :-1] - A[:, -1:], R[:, :-1] - R[:, -1:]
    return A @ pseudo_inverse(R)


def _lower(header: Mapping[str, Any], arrays: Mapping[str, Any], A: Any, queries: Queries) -> Any:
    """What dual weights prove that are not those of single queries and cells; None without any."""
    if "dual_u" not in arrays:
        return None
    p, u, w = float(header["p"]), arrays["dual_u"], arrays["dual_w"]
    if "poles" in arrays and w.ndim == 1 and header["neighbours"] == "add-remove":
        return stream_bound(arrays, p)
    if "residuals" in arrays and queries.plain:
        return marginals_bound(header, arrays, queries)
    if "sector_plain" in arrays:
        return tables_bound(header, arrays, queries)
    if w.ndim == 3 and "participation" in header:
        steps, schema = u.size, Pattern.of(header["participation"])
        count, width = w.shape[:2]
        classes = np.arange(count)[:, None] + count * np.arange(width)
        patterns = arrays.get("dual_steps", classes)
        if patterns.shape != (count, width) or not schema.allows(patterns):
            raise ValueError("dual weights are for steps of which a person cannot take part in all")
        F, omega = dual_factor(w, patterns, steps)
        proved = rounding.factored_norm(A[:steps, :steps], u, F)
        return proved / root(dual_norm(u.tolist(), p) * arb(omega))
    return None
