"""A strategy file: its claims, and the checks of each.

Claims come in groups, each present as a whole or not at all: the subject of the file, always; noise
that meets a guarantee; bounds on the norm, with the dual weights that prove the lower one. A file
that lacks a claim, has another one, or has a number out of its range is not valid. Errors may be
left out, which is reported.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any

import numpy as np

from pmldesign.verifier import rounding
from pmldesign.verifier.forms.dense import check_dense, dense_of
from pmldesign.verifier.forms.form import (
    COUNTS,
    TOO_WIDE,
    WEIGHTS,
    Claims,
    Domain,
    Form,
    kind,
    kinds,
)
from pmldesign.verifier.forms.persons import Persons, for_one_row, without_sentence
from pmldesign.verifier.forms.registry import FORMS
from pmldesign.verifier.forms.structured import UNKNOWN
from pmldesign.verifier.guarantees import RELATIONS, check_guarantee
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import KEY, Arrays, Checks, Header, as_number, digest_of
from pmldesign.verifier.streams.running_sums import check_sums

HASHED = 2**26
"""Entries of a workload up to which a file has a hash of it."""
COLUMNS = 64
"""Of the workload that are hashed at a time."""
DRAWN = "; the delta of sampled steps in double precision"
"""The part that is not in ball arithmetic (`participation`)."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _size(value: Any) -> bool:
    number = as_number(value)
    return number is not None and number >= 0


def _count(value: Any) -> bool:
    return type(value) is int and value >= 1


ABOUT = {
    "format": _count,
    "pmldesign": _text,
    "versions": lambda value: isinstance(value, dict) and all(map(_text, value.values())),
    "p": lambda value: bool(re.fullmatch("[0-9.e+]+|inf", value)) and float(value) >= 2,
    "neighbours": lambda value: value in RELATIONS,
    "workload": _text,
    "queries": _count,
    "cells": _count,
    "fingerprint": lambda value: value is None or bool(re.fullmatch("[0-9a-f]{64}", value)),
    KEY: _text,
}
NOISE = {
    "noise": lambda value: value in ("gaussian", "laplace", "cube"),
    "scale": _size,
    "sensitivity": _size,
    "guarantee": _text,
    "guarantee_numbers": lambda value: isinstance(value, dict),
    "achieved": _size,
}
ERRORS = {
    name: lambda value: value is None or _size(value) for name in ("error", "rmse", "max_std")
}
NORM = {"lower": _size, "upper": _size}
BESIDE = {
    "known": _text,
    "participation": _text,
    "unweighted": _text,
    "own_grid": lambda value: value is True,
    "form": lambda value: value in FORMS,
}
"""Public answers, several participations, queries without weights, noise on the grid of whole
measurements, and strategies without a matrix."""
CLAIMS = ABOUT | NOISE | ERRORS | NORM | BESIDE
"""Claims of a header, with their domains."""

DUALS: tuple[dict[str, Domain], ...] = (
    {"dual_u": WEIGHTS, "dual_w": Domain(axes=(1, 2, 3))},
    {"dual_u_#": WEIGHTS, "dual_w_#": WEIGHTS},
)
GROUPS = {"groups": COUNTS}
STEPS = {"dual_steps": Domain(0, whole=True, axes=(2,))}


def stated(header: Header, arrays: Arrays, checks: Checks) -> tuple[Header, Form] | None:
    """The header without groups that are not whole, and the form, if any; adds what fits."""
    kept = dict(header)
    lacking = [name for name in ABOUT if name not in header]
    for group in (NOISE, NORM):
        some = [name for name in group if name in header]
        if some and len(some) < len(group):
            lacking += [name for name in group if name not in header]
            kept = {name: value for name, value in kept.items() if name not in group}
    more = [name for name in header if name not in CLAIMS]
    of_noise = (*ERRORS, "own_grid")
    more += [name for name in of_noise if name in header and "noise" not in header]
    wrong = [name for name, value in header.items() if not CLAIMS.get(name, bool)(value)]
    if "lower" in kept and not wrong and kept["lower"] > kept["upper"]:
        wrong.append("lower is above upper")
    persons = Persons.of(header["participation"]) if "participation" in header else None
    if persons is None and "participation" in header and header.get("neighbours") == "replace":
        wrong.append("participation in steps is for add-remove neighbours")
    if persons is not None and header.get("guarantee_numbers", {}).get("kind") == "pml":
        wrong.append("PML is about single records")
    faults = [("lacks", lacking), ("has", more), ("not in range:", wrong)]
    _state("claims", "those of a strategy, each in its range", faults, checks)
    form = form_of(header, arrays)
    if form is None:
        checks.state("strategy", False, "the arrays are those of no form")
    if form is None or not _check_arrays(form, header, arrays, checks):
        return None
    if "noise" in kept:
        for name in (name for name in ERRORS if kept.get(name) is None):
            if name not in form.unsaid or name not in kept:
                checks.unchecked(name, "the file does not claim it")
            kept.pop(name, None)
    return kept, form


def _check_arrays(form: Form, header: Header, arrays: Arrays, checks: Checks) -> bool:
    """Whether there is something to compute with; adds whether arrays are all those of a form."""
    names, own = kinds(arrays), form.domains(arrays)
    duals = next((parts for parts in DUALS if names & parts.keys()), {})
    domains = own | GROUPS | duals | STEPS
    needed = own.keys() | (duals or DUALS[0] if "lower" in header else {}).keys()
    allowed = needed | (STEPS.keys() if "lower" in header else set())
    allowed |= GROUPS.keys() if form.rows is None or form.grouped else set()
    wrong = {
        name
        for name, array in arrays.items()
        if (domain := domains.get(kind(name))) and not domain.holds(array)
    }
    if "dual_w" in arrays and arrays["dual_w"].ndim < 3 and (arrays["dual_w"] < 0).any():
        wrong.add("dual_w")
    faults = [("lack", needed - names), ("have", names - allowed), ("not in range:", wrong)]
    whole = own.keys() <= names
    if whole:
        n = form.cells(arrays)
        faults.append(("are about", {f"{n} cells"} if header.get("cells", n) != n else set()))
    _state("arrays", f"those of {form.about}", faults, checks)
    known, beside = header.get("known"), bool(names & {"groups", "counted"})
    several = arrays.get("counted", np.zeros(1)).ndim == 2
    promised = header.get("guarantee_numbers", {"published" if several else "known": known})
    named = (None, known) if several else (known, None)
    right = (known is not None) == beside
    right = right and (promised.get("known"), promised.get("published")) == named
    right = right and (known is None or header["neighbours"] == "replace")
    if beside or not right:
        checks.state("known", right, "named by the file and its guarantee, with an array for them")
    return whole and not wrong


def _state(name: str, about: str, faults: Any, checks: Checks) -> None:
    said = [f"{how} {', '.join(sorted(names))}" for how, names in faults if names]
    checks.state(name, not said, "; ".join(said) or about)


def check_strategy(header: Header, arrays: Arrays, queries: Queries | None, checks: Checks) -> str:
    """All checks of a strategy file.

    Args:
        header: of the file.
        arrays: of the file.
        queries: those that the strategy is for; None if unknown.
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
            checks.unchecked("form", UNKNOWN)
            return "none"
    claims = Claims(header, arrays, queries or Queries(None), form.cells(arrays))
    if "participation" in header:
        claims = for_one_row(form, claims)
    arithmetic = None if queries is None else form.check(claims, checks)
    if arithmetic is not None:
        return arithmetic
    if "gains" in arrays and claims.queries.sums() is not None:
        check_sums(arrays, claims.queries, checks)
    strategy = dense_of(form, claims, checks)
    if strategy is None:
        return "none"
    if strategy.arithmetic is rounding and not rounding.in_range(strategy.matrices(arrays)):
        checks.unchecked("claims", TOO_WIDE)
        return "none"
    check_dense(strategy, checks)
    return str(strategy.arithmetic.NAME)


def _check_table(header: Header, arrays: Arrays, queries: Queries | None, checks: Checks) -> None:
    """Whether the public tables of a strategy are the invariants."""
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
    same = header.get(KEY) == digest_of(header, arrays)
    checks.state("digest", same, "of the header and the arrays")


def _check_workload(header: Header, queries: Queries, checks: Checks) -> None:
    """Whether A is the workload that the file describes."""
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


def form_of(header: Header, arrays: Arrays) -> Form | None:
    """The form of a file; None if it has none."""
    if "form" in header:
        return FORMS.get(header["form"])
    return FORMS["matrix and inverse" if "right_inverse" in arrays else "matrix"]
