"""What a strategy file states: the claims of its header, and the arrays of its form.

Claims come in groups, each there as a whole or not at all: what the file is about, always; noise
that meets a guarantee; bounds on the norm, with the dual weights that prove the lower one. A file
without one of them, with another one, or with a number out of its range is no statement. Errors
may be left out, which is said. Format 1 had fewer claims: what it lacks is not checked.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from pmldesign.verify.digest import KEY
from pmldesign.verify.forms.written import cells_of
from pmldesign.verify.guarantees import RELATIONS
from pmldesign.verify.report import Arrays, Checks, Header, as_number


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _size(value: Any) -> bool:
    number = as_number(value)
    return number is not None and number >= 0


def _count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _exponent(value: Any) -> bool:
    return _text(value) and float(value) >= 2


ABOUT = {
    "format": _count,
    "pmldesign": _text,
    "versions": lambda value: isinstance(value, dict) and all(map(_text, value.values())),
    "p": _exponent,
    "neighbours": lambda value: value in RELATIONS,
    "workload": _text,
    "queries": _count,
    "cells": _count,
    "fingerprint": lambda value: value is None or bool(re.fullmatch("[0-9a-f]{64}", value)),
    KEY: _text,
}
NOISE = {
    "noise": lambda value: value in ("gaussian", "laplace"),
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
BESIDE = {"known": _text, "participation": _text}
"""Public answers, and several participations."""
CLAIMS = ABOUT | NOISE | ERRORS | NORM | BESIDE
"""Of a header, with what they may be."""
LATER = {*ABOUT, "sensitivity", "achieved"} - {"format", "p", "neighbours"}
"""What format 1 may lack while the rest is checked."""


class Domain(NamedTuple):
    """What an array may be: its least entry, whether that is left out, whole numbers, axes."""

    least: float = -math.inf
    open: bool = False
    whole: bool = False
    axes: tuple[int, ...] = (1,)

    def holds(self, array: Any) -> bool:
        """Whether an array is of this kind; entries of float arrays are finite."""
        if array.dtype.kind not in ("iu" if self.whole else "iuf") or array.ndim not in self.axes:
            return False
        return bool((array > self.least if self.open else array >= self.least).all())


MATRIX, VECTOR = Domain(axes=(2,)), Domain()
POSITIVE, WEIGHTS = Domain(0.0, open=True), Domain(0.0, axes=(1, 2))
COUNTS, SETS = Domain(0, whole=True), Domain(-1, whole=True, axes=(2,))
SIZES = Domain(1, whole=True)
TABLES = {"sizes": SIZES, "tables": SETS, "weights": POSITIVE}
NODES = {"poles": POSITIVE, "weights_of_poles": POSITIVE}
SUMS = {"rates": POSITIVE, "query_weights": POSITIVE, "step_weights": POSITIVE}
RESIDUALS = {"sizes": SIZES, "residuals": SETS, "precisions": POSITIVE}
FACTORS = {"factor_#": MATRIX}
MARGINS = {"counted": COUNTS, "sizes": SIZES}
FORMS: dict[str, dict[str, Domain]] = {
    "a matrix and its reconstruction": {"strategy": MATRIX, "reconstruction": MATRIX},
    "a matrix and its inverse": {"strategy": MATRIX, "right_inverse": MATRIX},
    "fixed epochs": {**NODES, **SUMS, "epochs": SIZES, "epoch_weights": Domain(axes=(3,))},
    "a stream": {**NODES, **SUMS, "u": POSITIVE, "w": POSITIVE},
    "all intervals": {**NODES, "w": POSITIVE},
    "a Toeplitz matrix": {**SUMS, "coefficients": Domain(0.0)},
    "a product beside a table": {**FACTORS, **MARGINS, "place": COUNTS},
    "a weighted product": {**FACTORS, "weights": POSITIVE},
    "a product": FACTORS,
    "regions": {"parents": Domain(-1, whole=True), "node_weights": Domain(0.0)},
    "an identity with rows": {"diagonal": POSITIVE, "rows": MATRIX},
    "blocks": {
        "free": Domain(0, whole=True, axes=(0, 1)),
        "combinations": Domain(-1, whole=True, axes=tuple(range(1, 32))),
        "block_#": MATRIX,
        "basis_#": MATRIX,
    },
    "sectors": {
        "sizes": SIZES,
        "ordered": COUNTS,
        "features": COUNTS,
        "coordinates_#": MATRIX,
        "sector_plain": SETS,
        "sector_spectators": SETS,
        "sector_sets": COUNTS,
        "sets": SETS,
        "entries": VECTOR,
    },
    "weighted products": {**TABLES, "designed": COUNTS, "design_#": MATRIX},
    "weighted tables": TABLES,
    "residuals beside a table": {**RESIDUALS, **MARGINS},
    "residuals": RESIDUALS,
}
"""The arrays of every form; # stands for 0, 1 ..."""
DUALS: tuple[dict[str, Domain], ...] = (
    {"dual_u": WEIGHTS, "dual_w": Domain(axes=(1, 2, 3))},
    {"dual_u_#": WEIGHTS, "dual_w_#": WEIGHTS},
)
GROUPS = {"groups": COUNTS}
STEPS = {"dual_steps": Domain(0, whole=True, axes=(2,))}


def stated(header: Header, arrays: Arrays, checks: Checks) -> Header | None:
    """The header without groups that are not whole, or None without a form; adds what fits."""
    early, kept = header.get("format") == 1, dict(header)
    lacking = [name for name in ABOUT if name not in header]
    for group in (NOISE, NORM):
        some = [name for name in group if name in header]
        if some and len(some) < len(group):
            lacking += [name for name in group if name not in header]
            if not early or not LATER.issuperset(lacking):
                kept = {name: value for name, value in kept.items() if name not in group}
    for name in lacking if early else ():
        checks.unchecked(name, "the file is from before there was one")
    more = [name for name in header if name not in CLAIMS]
    more += [name for name in ERRORS if name in header and "noise" not in header]
    wrong = [name for name, value in header.items() if not CLAIMS.get(name, bool)(value)]
    if "lower" in kept and not wrong and kept["lower"] > kept["upper"]:
        wrong.append("lower is above upper")
    if "participation" in header and header.get("neighbours") == "replace":
        wrong.append("participation is for add-remove neighbours")
    faults = [("lacks", [] if early else lacking), ("has", more), ("not in range:", wrong)]
    _state("claims", "those of a strategy, each in its range", faults, checks)
    if not _check_arrays(header, arrays, checks):
        return None
    if "noise" in kept:
        ranges = "poles" in arrays and "rates" not in arrays  # have no number for each query
        for name in (name for name in ERRORS if kept.get(name) is None):
            if not (ranges and name == "max_std" and name in kept):
                checks.unchecked(name, "the file does not claim it")
            kept.pop(name, None)
    return kept


def _check_arrays(header: Header, arrays: Arrays, checks: Checks) -> bool:
    """Whether there is something to compute with; adds whether arrays are all those of a form."""
    names = {re.sub("_[0-9]+$", "_#", name) for name in arrays}
    form = next((name for name, parts in FORMS.items() if parts.keys() <= names), None)
    if form is None:
        checks.state("strategy", False, "the arrays are those of no form")
        return False
    duals = next((parts for parts in DUALS if names & parts.keys()), {})
    domains = FORMS[form] | GROUPS | duals | STEPS
    needed = FORMS[form].keys() | (duals or DUALS[0] if "lower" in header else {}).keys()
    allowed = needed | (STEPS.keys() if "lower" in header else set())
    allowed |= GROUPS.keys() if "strategy" in arrays else set()
    wrong = [
        name
        for name, array in arrays.items()
        if (domain := domains.get(re.sub("_[0-9]+$", "_#", name))) and not domain.holds(array)
    ]
    if "dual_w" in arrays and arrays["dual_w"].ndim < 3 and (arrays["dual_w"] < 0).any():
        wrong.append("dual_w")
    n = cells_of(arrays)
    if "epochs" in arrays and not (arrays["epochs"].size == 3 and n <= arrays["epochs"][1:].prod()):
        wrong.append("epochs")  # k steps b apart are all n
    columns = [f"{n} cells"] if header.get("cells", n) != n else []
    faults = [("lack", needed - names), ("have", names - allowed), ("not in range:", wrong)]
    _state("arrays", f"those of {form}", [*faults, ("are about", columns)], checks)
    known, beside = header.get("known"), bool(names & {"groups", "counted"})
    promised = header.get("guarantee_numbers", {"known": known}).get("known")
    right = (known is not None) == beside and promised == known
    right = right and (known is None or header["neighbours"] == "replace")
    if beside or not right:
        checks.state("known", right, "named by the file and its guarantee, with an array for them")
    return not wrong


def _state(name: str, about: str, faults: Any, checks: Checks) -> None:
    said = [f"{how} {', '.join(sorted(names))}" for how, names in faults if names]
    checks.state(name, not said, "; ".join(said) or about)
