"""A strategy file: which claims it makes, and which room of this package checks them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pmldesign.verify.arithmetic import balls, rounding
from pmldesign.verify.digest import KEY, digest_of
from pmldesign.verify.forms.dense import Dense, check_dense
from pmldesign.verify.forms.marginals import Tables, check_marginals
from pmldesign.verify.forms.products import check_product
from pmldesign.verify.forms.streams import check_stream
from pmldesign.verify.report import Checks

RELATIONS = ("add-remove", "replace")
COLUMNS = 64
"""Of the workload that are hashed at a time."""


def check_strategy(
    header: Mapping[str, Any], arrays: Mapping[str, Any], queries: Any, checks: Checks
) -> str:
    """All checks of a strategy file.

    Args:
        header: of the file.
        arrays: of the file.
        queries: A, shape (m, n); its factors as a list where it is a product that is too large;
            `Tables` for marginals; None if it is not known.
        checks: to which they are added.

    Returns:
        The arithmetic that was used.
    """
    check_digest(header, arrays, checks)
    dense = queries if isinstance(queries, np.ndarray) else None
    if dense is not None:
        _check_workload(header, dense, checks)
    promised = header.get("guarantee_numbers", {}).get("neighbours", header["neighbours"])
    if header["neighbours"] not in RELATIONS or promised != header["neighbours"]:
        checks.state("neighbours", False, "are add-remove or replace, and those of the guarantee")
    if "guarantee_numbers" in header:
        _check_sentence(header, checks)
    several = header.get("participation") is not None
    if "strategy" in arrays and not several:
        strategy = _dense(header, arrays, dense, checks)
        if strategy is None:
            return "none"
        check_dense(strategy, checks)
        return str(strategy.arithmetic.NAME)
    if "participation" not in header:
        arithmetic = _check_form(header, arrays, queries, checks)
        if arithmetic is not None:
            return arithmetic
    for name in ("lower", "upper", "sensitivity", "guarantee_numbers", "error"):
        if name in header:
            checks.unchecked(name, "a strategy of this form is not computed")
    return "none"


def _check_form(
    header: Mapping[str, Any], arrays: Mapping[str, Any], queries: Any, checks: Checks
) -> str | None:
    """Checks of a strategy that is not written out; None for a form that has none."""
    add_remove = header["neighbours"] == "add-remove"
    if "poles" in arrays and add_remove:
        check_stream(header, arrays, queries if isinstance(queries, np.ndarray) else None, checks)
        return balls.NAME
    if "residuals" in arrays and isinstance(queries, Tables):
        check_marginals(header, arrays, queries, checks)
        return balls.NAME
    plain = "factor_0" in arrays and "weights" not in arrays
    if plain and add_remove and isinstance(queries, list):
        check_product(header, arrays, queries, checks)
        return rounding.NAME
    return None


def check_digest(header: Mapping[str, Any], arrays: Mapping[str, Any], checks: Checks) -> None:
    """Whether the file is as it was written."""
    if KEY in header:
        reason = "of the header and the arrays"
        checks.state("digest", header[KEY] == digest_of(header, arrays), reason)
    else:
        checks.unchecked("digest", "the file is from before there was one")


def _check_workload(header: Mapping[str, Any], queries: Any, checks: Checks) -> None:
    """Whether A is the workload that the file speaks of."""
    m, n = queries.shape
    for name, value in (("queries", m), ("cells", n)):
        if name in header:
            checks.state(name, header[name] == value, f"the workload has {value}")
    if header.get("fingerprint") is None:
        checks.unchecked("workload", "the file has no hash of it")
        return
    result = hashlib.sha256(f"{m} {n}".encode())
    for start in range(0, n, COLUMNS):
        block = np.ascontiguousarray(queries[:, start : start + COLUMNS] + 0.0)
        result.update(block.tobytes())
    same = result.hexdigest() == header["fingerprint"]
    checks.state("workload", same, "hash of shape and entries")


def _check_sentence(header: Mapping[str, Any], checks: Checks) -> None:
    """Whether the numbers in the sentence of the guarantee are those of the guarantee."""
    numbers = header["guarantee_numbers"]
    alpha = numbers.get("alpha")
    values = [numbers["epsilon"], numbers["delta"], header.get("cells")]
    values += [min(alpha), max(alpha)] if isinstance(alpha, list) else [alpha]
    values += list(numbers.get("sample", {}).values())
    allowed = {float(value) for value in values if value is not None}
    sentence = header["guarantee"].replace(repr(numbers.get("known")), "")
    words = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?", sentence.replace("e^", " "))
    other = [word for word in words if float(word) not in allowed]
    reason = f"{other[0]} is no number of it" if other else "its numbers are those of the guarantee"
    if "cells" in header:
        checks.state("sentence", not other, reason)


def _dense(
    header: Mapping[str, Any], arrays: Mapping[str, Any], queries: Any, checks: Checks
) -> Dense | None:
    """The matrices, if their shapes fit."""
    R = np.asarray(arrays["strategy"], dtype=np.float64)
    L = arrays.get("reconstruction")
    if "right_inverse" in arrays and queries is not None:
        L = queries @ arrays["right_inverse"]
    duals = (arrays["dual_u"], arrays["dual_w"]) if "dual_u" in arrays else None
    fits = R.ndim == 2 and (L is None or L.shape[1:] == R.shape[:1])
    if queries is not None:
        m, n = queries.shape
        fits = fits and R.shape[1] == n and (L is None or L.shape[0] == m)
        if duals is not None:
            fits = fits and duals[0].shape == (m,) and duals[1].shape in ((n,), (n, n))
    checks.state("shapes", bool(fits), "of the arrays")
    groups = arrays.get("groups")
    if groups is not None or "known" in header:
        fits = fits and groups is not None and groups.shape == R.shape[1:]
        fits = fits and header["neighbours"] == "replace"
        checks.state("groups", bool(fits), "of cells, within which a record is replaced")
        checks.unchecked("known", "whether these groups are what the known answers tell apart")
    return Dense(header, queries, L, R, duals, groups) if fits else None
