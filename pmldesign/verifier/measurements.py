r"""A file of measurements: a strategy file, the manifest of its release, and noisy values.

The measurements are whole multiples of units u. A record is a mixture of cells in parts of 1/D, D
the `denominator` of the manifest, so that the counts D x are whole; R is Z times D u with Z a
matrix of whole numbers, and Z D x + eta was measured. Of neighbours Z D x differs by D times the
columns of Z = diag(1/(D u)) R, or by differences of two of them (within a group of cells that the
invariants distinguish from others): the largest norm is the sensitivity that the manifest states,
for which its noise keeps the guarantee. If R itself is not on the lattice, entries of D u Z are off
by `bias_of_an_entry`, half of D u if R is rounded, at most D u if its products are: the sensitivity
is then that of the rounded R, or one of R that was made larger.

Under add-remove the measured values are whole multiples of the units. Under replace the public part
was subtracted from them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from pmldesign._version import FORMAT
from pmldesign.verifier.forms.form import COUNTS, POSITIVE, VECTOR
from pmldesign.verifier.forms.known_tables import shared_sets
from pmldesign.verifier.forms.persons import Persons, agreeing
from pmldesign.verifier.forms.written import centred
from pmldesign.verifier.manifests import (
    LAWS,
    UNSEEN,
    check_promise,
    check_sampler,
    check_schema,
    is_manifest,
)
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Arrays, Checks, Header
from pmldesign.verifier.strategies import check_content, check_digest, form_of

CLAIMS = ("manifest", "decimals", "own_grid", "release")
ARRAYS = {"measured": VECTOR, "units": POSITIVE, "records": COUNTS}
"""Arrays of a file of measurements, in addition to those of a strategy."""
LARGER = 1e-2
"""A sensitivity may be a bound above the exact one, by no more than this part."""
WHOLE, LARGEST_WHOLE = 2.0**-51, 2.0**50
"""Relative error of a whole number that was multiplied by a unit, and up to which it is seen."""
ROUNDED = 1e-9
"""Relative, of distances in double precision."""
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}
FINEST = 2**16
"""The largest entry of R in units, at least, if R is rounded."""
MOST_CELLS = 1024
"""Of which all pairs are compared under replace."""


def check_measurements(
    header: Header, arrays: Arrays, queries: Queries | None, schema: str | None, checks: Checks
) -> str:
    """All checks of a file of measurements; arguments and result as `check_strategy`.

    `schema` is the hash of the schema that is given, None if none is.
    """
    check_digest(header, arrays, checks)
    manifest = header["manifest"]
    told = {name: value for name, value in header.items() if name not in CLAIMS}
    kept = {name: array for name, array in arrays.items() if name not in ARRAYS}
    arithmetic = check_content(told, kept, queries, checks)
    right = (
        isinstance(header["release"], str)
        and "noise" not in told
        and "lower" not in told
        and is_manifest(manifest)
    )
    checks.state("manifest", right and _agrees(header, manifest), "of the release of these queries")
    if not right:
        return arithmetic
    check_schema(manifest, schema, checks)
    check_promise(manifest, checks)
    for name in ("method", "sampler"):
        checks.unchecked(name, UNSEEN[name])
    check_sampler(manifest, checks)
    if not _check_values(header, arrays, checks):
        return arithmetic
    form = form_of(told, kept)
    R = None if form is None else form.matrix(kept)
    if R is None or (told["neighbours"] == "replace" and R.shape[1] > MOST_CELLS):
        checks.unchecked("sensitivity of R", "the strategy is too large for its matrix")
    else:
        _check_sensitivity(manifest, np.asarray(R, dtype=np.float64), arrays, checks)
    return arithmetic


def _agrees(header: Header, manifest: Header) -> bool:
    """Whether strategy and manifest are about the same."""
    promise = manifest["guarantee"]
    same = manifest["format"] == FORMAT
    same = same and all(manifest[name] == header[name] for name in ("cells", "workload"))
    same = same and manifest.get("asked", manifest["queries"]) == header["queries"]
    same = same and promise["neighbours"] == header["neighbours"]
    known = promise.get("known") or promise.get("published") or None
    return same and known == header.get("known")


def _check_values(header: Header, arrays: Arrays, checks: Checks) -> bool:
    """Whether there is a value and a unit for each measurement, and the public numbers."""
    manifest, replaced = header["manifest"], header["neighbours"] == "replace"
    names = {"measured", "units"} | ({"records"} if replaced else set())
    present = names == arrays.keys() & ARRAYS.keys()
    present = present and all(ARRAYS[name].holds(arrays[name]) for name in names)
    checks.state("values", present, "noisy values and units, and numbers of records if public")
    if not present:
        return False
    count, units = manifest["noise"]["measurements"], arrays["units"]
    fits = arrays["measured"].size == count and units.size in (1, count)
    fits = fits and units.max() == manifest["lattice"]["unit"]
    if fits and not replaced:
        values = arrays["measured"] / units
        off = np.abs(values - np.rint(values)) > WHOLE * np.abs(values)
        fits = not (off & (np.abs(values) < LARGEST_WHOLE)).any()
    checks.state("measurements", bool(fits), "as many as the manifest says, in its units")
    decimals, own = header["decimals"], header["own_grid"]
    laplace = manifest["noise"]["law"] == "discrete laplace"
    right = type(decimals) is int and 0 <= decimals <= 12 and isinstance(own, bool)
    checks.state(
        "decimals", right and (laplace or not own), "digits, and the grid of Laplace noise"
    )
    if replaced:
        groups, records = arrays.get("groups", np.zeros(1)), arrays["records"]
        blocks = [groups.max() + 1]
        if arrays.get("counted", np.zeros(1)).ndim == 2:
            sets = shared_sets(arrays["counted"])
            blocks = [math.prod(arrays["sizes"][i] for i in members) for members in sets]
        same = records.size == sum(blocks) and all(
            int(block.sum()) == manifest.get("records")
            for block in np.split(records, np.cumsum(blocks, dtype=int)[:-1])
        )
        checks.state("records", bool(same), "of each group, as many as the manifest says")
    return bool(fits)


def _check_sensitivity(manifest: Header, R: Any, arrays: Arrays, checks: Checks) -> None:
    """The sensitivity that the manifest states, from R."""
    if len(R) != manifest["noise"]["measurements"]:
        checks.state("sensitivity of R", False, "R has other rows than were measured")
        return
    lattice, norm = manifest["lattice"], LAWS[manifest["noise"]["law"]][3]
    parts = lattice["denominator"]
    Z = (R.T / np.broadcast_to(arrays["units"] * parts, len(R))).T
    off = 2 * lattice["bias_of_an_entry"] / lattice["unit"] / parts
    if off > 0 and np.abs(Z).max() < FINEST:
        checks.state("sensitivity of R", False, "rounding leaves too little of what is measured")
        return
    slack = off * {"l1": len(R), "l2": math.sqrt(len(R)), "linf": 1.0}[norm]
    Z = np.rint(Z) if 0 < off <= 1 else Z
    distance = _distance(Z, arrays.get("groups"), norm, manifest)
    persons = Persons.of(manifest["guarantee"]["participation"])
    if persons is not None:
        k, replaced = persons.count(Z.shape[1]), manifest["guarantee"]["neighbours"] == "replace"
        distance, slack = k * distance, k * slack
        own = centred(Z) if replaced and "strategy" not in arrays else Z
        far = persons.distance(own, norm, replaced=replaced, groups=agreeing(arrays))
        distance = min(distance, far)
    stated = float(Fraction(lattice["sensitivity"]))
    stated = (math.sqrt(stated) if norm == "l2" else stated) / parts
    enough = stated >= distance * (1 - ROUNDED)
    tight = stated <= (distance + slack + 1) * (1 + LARGER)
    checks.state("sensitivity of R", enough and tight, "the largest distance in units", distance)
    listed = manifest.get("distances", {})
    if "to_later_cells" in listed:
        pairs = zip(listed["to_later_cells"], range(Z.shape[1] - 1), strict=True)
        near = [
            np.array(words.split(), dtype=float) + slack
            >= _from(Z, j, norm)[j + 1 :] * (1 - ROUNDED)
            for words, j in pairs
        ]
        checks.state("distances of R", all(row.all() for row in near), "of all pairs of cells")
    elif listed:
        checks.unchecked("distances of R", "those of many cells, from any of them")


def _distance(Z: Any, groups: Any, norm: str, manifest: Header) -> float:
    """Largest distance of neighbours."""
    if manifest["guarantee"]["neighbours"] == "add-remove":
        return float(np.linalg.norm(Z, ORDERS[norm], axis=0).max())
    groups = np.zeros(Z.shape[1]) if groups is None else groups
    return max(float(_from(Z, j, norm)[groups == groups[j]].max()) for j in range(Z.shape[1]))


def _from(Z: Any, j: int, norm: str) -> Any:
    """Distances of all columns from one."""
    return np.linalg.norm(Z - Z[:, j : j + 1], ORDERS[norm], axis=0)
