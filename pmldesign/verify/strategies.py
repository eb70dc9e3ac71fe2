"""A strategy file: which claims it makes, and which room of this package checks them."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from pmldesign.verify.forms.dense import check_dense
from pmldesign.verify.forms.form import Claims
from pmldesign.verify.forms.matrices import dense_of
from pmldesign.verify.forms.persons import for_one_row, without_sentence
from pmldesign.verify.guarantees import check_guarantee
from pmldesign.verify.queries import Queries
from pmldesign.verify.reading import KEY, digest_of
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.statement import stated
from pmldesign.verify.streams.running_sums import check_sums

HASHED = 2**26
"""Entries of a workload up to which a file has a hash of it."""
COLUMNS = 64
"""Of the workload that are hashed at a time."""
DRAWN = "; the delta of sampled steps in double precision"
"""What is no ball arithmetic (`sampled`)."""


def check_strategy(header: Header, arrays: Arrays, queries: Queries | None, checks: Checks) -> str:
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
    arithmetic = check_content(header, arrays, queries, checks)
    drawn = "noise" in header and str(header.get("participation")).startswith("sampled")
    return arithmetic + (DRAWN if drawn else "")


def check_content(header: Header, arrays: Arrays, queries: Queries | None, checks: Checks) -> str:
    """The same without the digest."""
    kept = stated(header, arrays, checks)
    if kept is None:
        return "none"
    header, form = kept
    cells = header.get("cells", form.cells(arrays))
    if queries is not None:
        _check_workload(header, queries, checks)
    if "noise" in header:
        numbers = header["guarantee_numbers"]
        if numbers.get("neighbours") != header["neighbours"]:
            checks.state("neighbours", False, "are not those of the guarantee")
        words, right = header["guarantee"], True
        if "participation" in header:
            words, right = without_sentence(header)
        if not right:
            checks.state("persons", False, "are not those of the sentence of the guarantee")
        check_guarantee(numbers, words, cells, checks)
    if np.any(arrays.get("centred", 0)):
        replaced = header["neighbours"] == "replace"
        checks.state("neighbours", replaced, "beside the number of records")
    beside = "counted" in arrays
    if beside:
        _check_table(header, arrays, queries, checks)
        if queries is None:
            checks.unchecked("form", "the queries are not known; give --workload or --weights")
            return "none"
    claims = Claims(header, arrays, queries or Queries(None), form.cells(arrays))
    if "participation" in header:
        claims = for_one_row(form, claims)
    arithmetic = None if queries is None else form.check(claims, checks)
    if arithmetic is not None:
        return arithmetic
    if beside and "strategy" not in arrays:
        checks.unchecked("form", "beside a public table, for queries of this form")
        return "none"
    if "gains" in arrays and claims.queries.sums is not None:
        check_sums(arrays, claims.queries, checks)
    strategy = dense_of(form, claims, checks)
    if strategy is None:
        return "none"
    check_dense(strategy, checks)
    return str(strategy.arithmetic.NAME)


def _check_table(header: Header, arrays: Arrays, queries: Queries | None, checks: Checks) -> None:
    """Whether the tables that a strategy is beside are what is known."""
    checks.state("neighbours", header["neighbours"] == "replace", "beside public tables")
    if queries is None:
        return
    counted, sizes = arrays["counted"], [int(size) for size in arrays["sizes"]]
    known, rows = queries.known, np.atleast_2d(counted)
    if known is None:
        checks.unchecked("known", "the known answers have no name that tells them")
        return
    public = [np.flatnonzero(row).tolist() for row in rows]
    own = sizes if "strategy" in arrays else list(queries.sizes)
    same = list(known.sizes) == sizes == own and known.are_tables_of(public)
    checks.state("known", same and rows.shape[1] == len(sizes), "the tables of these attributes")


def check_digest(header: Header, arrays: Arrays, checks: Checks) -> None:
    """Whether the file is as it was written."""
    if KEY in header:
        reason = "of the header and the arrays"
        checks.state("digest", header[KEY] == digest_of(header, arrays), reason)
    else:
        checks.unchecked("digest", "the file is from before there was one")


def _check_workload(header: Header, queries: Queries, checks: Checks) -> None:
    """Whether A is the workload that the file speaks of."""
    A, n = queries.matrix, math.prod(queries.sizes) if queries.sizes else None
    m, n = (queries.count, n) if A is None else A.shape
    for name, value in (("queries", m), ("cells", n)):
        if name in header and value is not None:
            checks.state(name, header[name] == value, f"the workload has {value}")
    if header.get("fingerprint") is None:
        if queries.named and (m is None or n is None or m * n > HASHED):
            checks.state(
                "workload", True, "named by the file, which has no hash of so many entries"
            )
        else:
            checks.unchecked("workload", "the file has no hash of it")
        return
    n = header.get("cells") if n is None else n
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
