"""What a strategy file states: the claims of its header, and the arrays of its form.

Claims come in groups, each there as a whole or not at all: what the file is about, always; noise
that meets a guarantee; bounds on the norm, with the dual weights that prove the lower one. A file
without one of them, with another one, or with a number out of its range is no statement. Errors
may be left out, which is said. Format 1 had fewer claims: what it lacks is not checked.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pmldesign.verify.forms.form import COUNTS, WEIGHTS, Domain, Form, kind, kinds
from pmldesign.verify.forms.persons import Persons
from pmldesign.verify.forms.registry import FORMS, form_of
from pmldesign.verify.guarantees import RELATIONS
from pmldesign.verify.reading import KEY
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
measurements, and what is no matrix."""
CLAIMS = ABOUT | NOISE | ERRORS | NORM | BESIDE
"""Of a header, with what they may be."""
LATER = {*ABOUT, "sensitivity", "achieved"} - {"format", "p", "neighbours"}
"""What format 1 may lack while the rest is checked."""


DUALS: tuple[dict[str, Domain], ...] = (
    {"dual_u": WEIGHTS, "dual_w": Domain(axes=(1, 2, 3))},
    {"dual_u_#": WEIGHTS, "dual_w_#": WEIGHTS},
)
GROUPS = {"groups": COUNTS}
STEPS = {"dual_steps": Domain(0, whole=True, axes=(2,))}


def stated(header: Header, arrays: Arrays, checks: Checks) -> tuple[Header, Form] | None:
    """The header without groups that are not whole, and the form, if any; adds what fits."""
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
    faults = [("lacks", [] if early else lacking), ("has", more), ("not in range:", wrong)]
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
    promised, key = header.get("guarantee_numbers", {"known": known}), "known"
    if "guarantee_numbers" in header and arrays.get("counted", np.zeros(1)).ndim == 2:
        key = "published"
    promised = promised.get(key)
    right = (known is not None) == beside and promised == known
    right = right and (known is None or header["neighbours"] == "replace")
    if beside or not right:
        checks.state("known", right, "named by the file and its guarantee, with an array for them")
    return whole and not wrong


def _state(name: str, about: str, faults: Any, checks: Checks) -> None:
    said = [f"{how} {', '.join(sorted(names))}" for how, names in faults if names]
    checks.state(name, not said, "; ".join(said) or about)
