r"""The manifest of a release: whether its noise keeps its guarantee.

Measurements are whole multiples of units; those of neighbours, with and without all rows of a
person, differ by at most `sensitivity` (the l1 norm, or the squared l2 norm). Where a record is a
mixture of cells in parts of 1/D, D the `denominator`, they are D times as fine as the strategy.

    discrete Laplace noise of parameter b     epsilon = Delta_1 / b
    discrete Gaussian of parameter s          s^2 >= sigma^2 + 4 with sigma of continuous noise on
                                              values then rounded by a discrete Gaussian of
                                              parameter 2: delta(epsilon) of Delta_2 / sigma, up to
                                              e^(2e-34) for each measurement

Under PML the loss depends on the distances of measurements of the cells, in units: of all of them
up to 256 cells, else of any cell from the others. Without alpha the largest distance counts.

The published tables are in the folder of the manifest, which has their hashes.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

from flint import arb

from pmldesign.errors import UNBIASED, is_biased
from pmldesign.verifier.balls import above, largest
from pmldesign.verifier.distributions import Rows, alpha_of, rows_of
from pmldesign.verifier.forms.persons import Persons, without_sentence
from pmldesign.verifier.guarantees import KINDS, check_guarantee, dp_loss, gaussian_profile
from pmldesign.verifier.losses import pml_loss
from pmldesign.verifier.report import KEY, OBJECT, Checks, Header, as_number, digest_of_object

NAME = "ball arithmetic of 192 bits"
MANIFEST = ".manifest.json"
TABLES = {"table": (".csv", ".parquet"), "known": (".known.csv",)}
"""Endings of the files published with a manifest."""
UNIT_ROUNDING = 1 + 2.0**-50
"""The unit is 2^-bits over the denominator, to the nearest float."""
LAWS = {
    "discrete laplace": ("laplace", "the l1 norm, in units", "epsilon", "l1"),
    "discrete cube": ("cube", "the l_inf norm, in units", "epsilon", "linf"),
    "discrete gaussian": ("gaussian", "the squared l2 norm, in squared units", "delta", "l2"),
}
"""Of each law of noise: the noise, the kind of its sensitivity, its loss under PML and its norm."""
PARTS = {
    "": "format pmldesign workload queries cells guarantee noise lattice intervals post_processing"
    " sha256 asked? records? suppress? if_alpha_is_wrong? distances?",
    "noise": "law parameter sigma measurements sampler",
    "lattice": "bits unit sensitivity of exact bias_of_an_entry denominator",
    "intervals": "level simultaneous cover?",
    "suppress": "relative_error",
    "if_alpha_is_wrong": "loss half_alpha dp",
    "distances": "norm from_any? cells? different? to_later_cells?",
    "sha256": "strategy workload schema object? table? known?",
}
"""Claims of a manifest and of its parts; those with a question mark may be missing."""
UNSEEN = {
    "strategy": "its sensitivity, units, distances and hash: it is not in the manifest",
    "queries": "names, hash and the number of cells: they are not in the manifest",
    "method": "the numbers in the table, the level of intervals, what was done to the estimates",
    "sampler": "whether the noise was drawn as the manifest says, no file tells",
}
"""Claims that no manifest can prove, and why."""
SHARPER = 1e-2
"""The noise of a release loses at least this much less than is promised, but not more so: a
discrete Gaussian has slightly more variance than a continuous one."""
ROUNDED = 1e-9
"""By which the square of the parameter of a discrete Gaussian may be above sigma^2 + 4."""
FRAME = ("kind", "neighbours", "participation", "words")
"""Keys of the guarantee of a manifest, except its numbers."""
LISTED = 1e-6
"""Relative, between the sensitivity and the largest distance that is listed, which is rounded."""
SHARPER_BOUND = 0.06
"""The same under PML with Gaussian noise: of three columns the loss is bounded on strips."""


def check_manifest(content: Header, path: Path, schema: str | None, checks: Checks) -> str:
    """All claims of a manifest that can be recomputed from it and from its tables.

    Args:
        content: of the manifest.
        path: of the manifest.
        schema: hash of the schema that is given; None if none is.
        checks: to which they are added.
    """
    same = content[KEY].get(OBJECT) == digest_of_object(content)
    checks.state("digest", same, "of the whole manifest")
    checks.state("claims", is_manifest(content), "those of a manifest, each in its range")
    _check_tables(content, path, checks)
    check_schema(content, schema, checks)
    check_promise(content, checks)
    for name, reason in UNSEEN.items():
        checks.unchecked(name, reason)
    check_sampler(content, checks)
    return NAME


def check_schema(content: Header, schema: str | None, checks: Checks) -> None:
    """Whether a manifest is about people of the schema that is given, by its hash."""
    stated = content[KEY]["schema"]
    if schema is not None:
        reason = "the manifest has the hash of another schema"
        if stated is None:
            reason = "the manifest is of a release without a schema"
        same = stated == schema
        checks.state("schema", same, "hash of the schema" if same else reason)
    elif stated is not None:
        checks.unchecked("schema", "the manifest has its hash; pass `schema`")


def check_sampler(content: Header, checks: Checks) -> None:
    """Refuse noise of a library whose noise is known to have another law."""
    library = content["noise"]["sampler"]
    if is_biased(library.removeprefix("opendp ")):
        reason = f"of {library}: before {UNBIASED} it loses more than is promised"
        checks.state("noise", False, reason)


def check_promise(content: Header, checks: Checks) -> None:
    """Whether the noise of a manifest keeps its guarantee."""
    promise, noise, lattice = content["guarantee"], content["noise"], content["lattice"]
    numbers = _numbers_of(promise)
    words, right = without_sentence({**promise, "guarantee": promise["words"]})
    if not right:
        checks.state("persons", False, "are not those of the sentence")
    if not check_guarantee(numbers, words, content["cells"], checks):
        return
    law, *told = LAWS[noise["law"]]
    gaussian = law == "gaussian"
    checks.state("sensitivity", lattice["of"] == told[0], "of the norm that the noise is for")
    if gaussian:
        over = Fraction(noise["parameter"]) ** 2 / (Fraction(noise["sigma"]) ** 2 + 4)
        right = 1 <= over <= 1 + ROUNDED and noise["sigma"] > 0
        checks.state("parameter", right, "its square is sigma^2 + 4, rounded upwards")
    elif noise["sigma"] is not None:
        checks.state("sigma", False, "Laplace and cube noise have none")
    scale = arb(noise["sigma" if gaussian else "parameter"])
    if numbers["kind"] != "pml":
        _check_dp(numbers, law, scale, lattice, checks)
    elif "distances" in content:
        _check_pml(content, numbers, law, scale, checks)
    else:
        checks.unchecked("guarantee", "the manifest has no distances of its many cells")


def is_manifest(content: Any) -> bool:
    """Whether all parts have their claims, and no others, in their ranges."""
    for part, names in PARTS.items():
        given = content.get(part) if part else content
        if given is None and part in ("if_alpha_is_wrong", "distances", "suppress"):
            continue
        allowed = {name.rstrip("?") for name in names.split()}
        needed = {name for name in names.split() if not name.endswith("?")}
        if not isinstance(given, dict) or not needed <= given.keys() <= allowed:
            return False
    noise, lattice, intervals = content["noise"], content["lattice"], content["intervals"]
    counts = [content["queries"], content["cells"], noise["measurements"], lattice["bits"]]
    counts += [content.get("asked", 1), lattice["denominator"]]
    records = content.get("records", 0)
    people = content["guarantee"]["participation"]
    sizes = [noise["parameter"], lattice["unit"], intervals["level"], 1 - intervals["level"]]
    suppressed = as_number(content.get("suppress", {}).get("relative_error")) or 0.0
    replaced = content["guarantee"]["neighbours"] == "replace"
    pml = KINDS[content["guarantee"]["kind"]].kind == "pml"
    return (
        all(type(count) is int and count >= 1 for count in counts)
        and all(isinstance(content[name], str) for name in ("pmldesign", "workload"))
        and (people is None or Persons.of(people) is not None)
        and all((as_number(size) or 0.0) > 0 for size in sizes)
        and noise["law"] in LAWS
        and re.fullmatch("opendp [0-9]+[.][0-9]+[.][0-9]+[a-z0-9.+-]*", noise["sampler"])
        is not None
        and re.fullmatch("[1-9][0-9]*", lattice["sensitivity"]) is not None
        and isinstance(lattice["exact"], bool)
        and type(lattice["bias_of_an_entry"]) in (int, float)
        and 0
        <= lattice["bias_of_an_entry"]
        <= lattice["unit"] * lattice["denominator"] * UNIT_ROUNDING
        and isinstance(intervals["simultaneous"], bool)
        and isinstance(content["post_processing"], list)
        and set(content["post_processing"]) <= {"nonnegative", "integers"}
        and type(records) is int
        and records >= 0
        and (replaced or "records" not in content)
        and ("suppress" not in content or suppressed > 0)
        and pml == ("if_alpha_is_wrong" in content)
        and (pml or "distances" not in content)
    )


def _numbers_of(promise: Header) -> dict[str, Any]:
    """The numbers of a guarantee as strategy files have them."""
    kind = KINDS[promise["kind"]]
    beside = {key: promise[key] for key in ("known", "published", "sample") if promise.get(key)}
    if kind.kind == "pml" and {"known", "published"} & beside.keys():
        raise ValueError("PML has no known answers")
    own = {name: promise[name] for name in kind.numbers}
    fixed = {"delta": 0.0} if kind.kind in ("dp", "pml") else {"unit": kind.numbers[-1]}
    fixed |= own if kind.failure is None else {"failure": kind.failure, **own}
    beside_them = FRAME if kind.kind == "pml" else (*FRAME, "known")
    if promise.keys() - {"sample", "published"} != fixed.keys() | set(beside_them):
        raise ValueError(f"the guarantee has not the numbers of {promise['kind']}")
    for name in fixed:
        if promise[name] != fixed[name]:
            raise ValueError(f"{name} {promise[name]!r:.40} is none of {promise['kind']}")
    frame = {"kind": kind.kind, "failure": kind.failure, "neighbours": promise["neighbours"]}
    return {key: {**frame, **own}.get(key) for key in kind.keys} | beside


def _check_tables(content: Header, path: Path, checks: Checks) -> None:
    """Whether the tables of a manifest are those whose hashes it has."""
    base = str(path).removesuffix(MANIFEST)
    for name, endings in TABLES.items():
        listed = content[KEY].get(name)
        found = [Path(base + ending) for ending in endings if Path(base + ending).is_file()]
        if listed is None and not found and name != "table":
            continue
        other = [file for file in found if _hash(file) != listed]
        if listed is None:
            reason = "the manifest has no hash of it"
        elif not found:
            reason = f"is missing beside the manifest: {' or '.join(endings)}"
        elif other:
            reason = f"{other[0].name} is not the one that the manifest is of"
        else:
            reason = f"hash of {found[0].name}"
        checks.state(name, listed is not None and bool(found) and not other, reason)
        if name == "table" and found and found[0].suffix == ".csv":
            rows = _rows_in(found[0])
            checks.state("queries", content["queries"] == rows, f"the table has {rows} rows")


def _hash(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _rows_in(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as handle:
        return sum(1 for _ in csv.reader(handle)) - 1


def _check_dp(numbers: Header, law: str, scale: Any, lattice: Header, checks: Checks) -> None:
    """The loss of the noise on the sensitivity."""
    distance = arb(int(lattice["sensitivity"]))
    distance = distance.sqrt() if law == "gaussian" else distance
    loss = dp_loss(numbers, law, distance / scale)
    assert loss is not None
    value, target = above(loss[0]), loss[1]
    checks.state("guarantee", value <= target * (1 + 1e-12), "the loss of the noise", value)
    tight = value >= target * (1 - SHARPER)
    checks.state("scale", tight, "no more noise than the guarantee asks for", value)


def _check_pml(content: Header, numbers: Header, law: str, scale: Any, checks: Checks) -> None:
    """The loss on the distances, that at half of alpha, and that without any."""
    gaussian, wrong = law == "gaussian", content["if_alpha_is_wrong"]
    _, _, loss, norm = LAWS[f"discrete {law}"]
    one = content["guarantee"]["participation"] is None
    checks.state("persons", one, "PML is about single records")
    if content["distances"]["norm"] != norm or wrong["loss"] != loss:
        checks.state("distances", False, "and losses are those of the noise")
        return
    value, target = _loss_of_share(content, numbers, law, scale, 1.0)
    checks.state("guarantee", value <= target * (1 + 1e-9), "the loss of the noise", value)
    sharper = SHARPER_BOUND if gaussian else SHARPER
    checks.state("scale", value >= target * (1 - sharper), "no more noise than is asked for", value)
    half, _ = _loss_of_share(content, numbers, law, scale, 0.5)
    checks.at_most("half alpha", wrong["half_alpha"], half * (1 - 1e-9), weaker=sharper)
    rows = _rows(content, numbers, arb(0)).distances
    longest = largest(value for row in rows for value in row)
    over = arb(int(content["lattice"]["sensitivity"])) / (longest**2 if gaussian else longest)
    checks.state("sensitivity", abs(float(over) - 1) <= LISTED, "the largest of the distances")
    ratio = longest / scale
    alone = gaussian_profile(ratio, arb(numbers["epsilon"])) if gaussian else ratio
    checks.at_most("without alpha", wrong["dp"], above(alone) * (1 - 1e-9), weaker=1e-3)


def _loss_of_share(
    content: Header, numbers: Header, law: str, scale: Any, share: float
) -> tuple[float, float]:
    loss, target = pml_loss(numbers, law, _rows(content, numbers, arb(share)), scale)
    return above(loss), target


def _rows(content: Header, numbers: Header, share: Any) -> Rows:
    """The distances of a manifest, for a share of alpha."""
    listed, cells = content["distances"], content["cells"]
    if "from_any" in listed:
        least = share
        for value in alpha_of(numbers, cells):
            least = least.min(share * value)
        distances, counts = _words(listed["from_any"]), listed["cells"]
        listed_alone = listed.keys() == {"norm", "from_any", "cells", "different"}
        if not listed_alone or not all(type(count) is int and count >= 1 for count in counts):
            raise ValueError("there are distances from any cell, and numbers of cells at each")
        if sum(counts) != cells or counts[0] * listed["different"] != cells:
            raise ValueError("the numbers of cells at each distance are not those of all cells")
        return Rows([distances], [least * count for count in counts], listed["different"])
    rows = [_words(row) for row in listed["to_later_cells"]]
    if listed.keys() != {"norm", "to_later_cells"} or [len(row) for row in rows] != list(
        range(cells - 1, 0, -1)
    ):
        raise ValueError("the distances are not those of all pairs of cells")
    apart = [[arb(0)] * cells for _ in range(cells)]
    for i, row in enumerate(rows):
        for j, value in enumerate(row, start=i + 1):
            apart[i][j] = apart[j][i] = value
    return rows_of(numbers, apart, merge=listed["norm"] == "l2", share=share)


def _words(text: str) -> list[Any]:
    """Distances that are written in a row."""
    values = [float(word) for word in text.split()]
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError("distances are finite numbers of at least 0")
    return [arb(value) for value in values]
