"""A strategy file: which claims it makes, and which room of this package checks them."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from pmldesign.verify.arithmetic import balls, rounding
from pmldesign.verify.digest import KEY, digest_of
from pmldesign.verify.forms.dense import check_dense
from pmldesign.verify.forms.large import check_blocks, check_identity
from pmldesign.verify.forms.marginals import check_marginals
from pmldesign.verify.forms.matrices import dense_of
from pmldesign.verify.forms.products import check_product
from pmldesign.verify.forms.tables import check_tables
from pmldesign.verify.forms.unions import check_product_basis
from pmldesign.verify.forms.written import MOST_CELLS, cells_of, kron
from pmldesign.verify.guarantees import check_guarantee
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.statement import stated
from pmldesign.verify.streams.running_sums import check_intervals, check_stream, is_exact
from pmldesign.verify.streams.several import check_several
from pmldesign.verify.trees.regions import check_regions

HASHED = 2**26
"""Entries of a workload up to which a file has a hash of it."""
COLUMNS = 64
"""Of the workload that are hashed at a time."""


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
    kept = stated(header, arrays, checks)
    if kept is None:
        return "none"
    header = kept
    if queries is not None:
        _check_workload(header, queries, checks)
    if "noise" in header:
        numbers = header["guarantee_numbers"]
        if numbers.get("neighbours") != header["neighbours"]:
            checks.state("neighbours", False, "are not those of the guarantee")
        cells = header.get("cells", cells_of(arrays))
        check_guarantee(numbers, header["guarantee"], cells, checks)
    arithmetic = _check_form(header, arrays, queries, checks)
    if arithmetic is not None:
        return arithmetic
    strategy = dense_of(header, arrays, queries or Queries(None), checks)
    if strategy is None:
        return "none"
    check_dense(strategy, checks)
    return str(strategy.arithmetic.NAME)


def _check_form(
    header: Header, arrays: Arrays, queries: Queries | None, checks: Checks
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
    if "participation" in header or "coefficients" in arrays:
        if not (large and "rates" in arrays and plain and gaussian):
            return None
        check_several(header, arrays, queries, checks)
        return rounding.NAME
    if large and "poles" in arrays and "rates" not in arrays and plain and gaussian:
        check_intervals(header, arrays, queries, checks)
        return rounding.NAME
    if "rates" in arrays and plain and gaussian:
        check_stream(header, arrays, queries, checks)
        return balls.NAME if is_exact(arrays) else rounding.NAME
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
    if "parents" in arrays and queries.regions is not None and (large or (exact and not pml)):
        check_regions(header, arrays, queries, checks)
        return rounding.NAME
    if "factor_0" in arrays and "weights" not in arrays and factors and plain and exact:
        check_product(header, arrays, factors, checks)
        return rounding.NAME
    return None


def _check_beside_table(
    header: Header, arrays: Arrays, queries: Queries | None, checks: Checks
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
