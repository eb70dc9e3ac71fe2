r"""Measurements of several releases of the same people, combined by generalised least squares.

With standard deviations s_1, s_2 ... of the noise of each,

    R = [R_1 / s_1; R_2 / s_2; ...],    y = [y_1 / s_1; ...],

have noise of equal variance, so that L = A R^+ has the least variance of all unbiased answers:
diag(A (sum_f R_f^T R_f / s_f^2)^+ A^T), never more than that of one file alone. R is written out
for few cells, and beyond them in the coordinates of its tables (`tables`).

All releases together: epsilons of Laplace and cube noise add up, and so do squares of mu of
Gaussian noise (`privacy.composition`), for releases that were chosen after others were seen too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.composition import composed
from pmldesign.privacy.curves import PrivacyCurve, pure_curve
from pmldesign.privacy.guarantees import ApproxDP, Guarantee, PureDP
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, float_above, root_above
from pmldesign.release.measured.measurements import Measurements
from pmldesign.release.measured.tables import MOST_COORDINATES, tables_together
from pmldesign.release.people.schema import Schema
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import as_participation
from pmldesign.strategies.whole.lattice import SENSITIVITY_ROUNDING
from pmldesign.workloads.base import check_entries

MOST_CELLS = 4096
"""Of several releases whose matrix is written out; its inverse takes a minute."""


def combined(parts: Sequence[Measurements], schema: Schema | None = None) -> Measurements:
    """Measurements of the same people together; a single one is left as it is.

    Args:
        parts: of one release each.
        schema: of the releases, where tables of many cells are told by names.

    Raises:
        InvalidInputError: none, or they do not fit together.
    """
    if not parts:
        raise InvalidInputError("there are no measurements; give at least one file")
    first, *others = parts
    if not others:
        return first
    if len({part.identity for part in parts}) < len(parts):
        raise InvalidInputError(
            "two of the files are versions of one release, whose noise is not independent; give"
            " the sharper one alone"
        )
    for other in others:
        _require_same_people(first, other)
    scales = [1 / max(law.deviation for law in part.laws) for part in parts]
    pairs = [*zip(parts, scales, strict=True)]
    return Measurements(
        _stacked(parts, scales, schema),
        np.concatenate([scale * part.values for part, scale in pairs]),
        tuple(law.times(scale) for part, scale in pairs for law in part.laws),
        first.public,
        tuple(manifest for part in parts for manifest in part.manifests),
        schema=first.schema,
    )


def _stacked(
    parts: Sequence[Measurements], scales: Sequence[float], schema: Schema | None
) -> Strategy:
    """R, one strategy below the other."""
    first, cells = parts[0].strategy, parts[0].strategy.cells
    if cells <= MOST_CELLS:
        check_entries("all measurements", (sum(part.values.size for part in parts), cells))
        rows = [s * part.strategy.matrix for part, s in zip(parts, scales, strict=True)]
        return Strategy("several releases", np.vstack(rows), public=first.public)
    found = tables_together([(part.strategy, part.queries) for part in parts], scales, schema)
    if found is None:
        raise InvalidInputError(
            f"several releases of more than {MOST_CELLS} cells are combined where they are tables"
            f" by name (give --schema) that tell at most {MOST_COORDINATES} numbers together;"
            " ask each of them"
        )
    return found


def _require_same_people(first: Measurements, other: Measurements) -> None:
    """Refuse releases about other cells, neighbours or public numbers, or with cube noise."""
    (one,), (two,) = first.manifests, other.manifests
    for what, place in (
        ("schemas", ("sha256", "schema")),
        ("numbers of cells", ("cells",)),
        ("neighbours", ("guarantee", "neighbours")),
        ("rows of each person", ("guarantee", "participation")),
        ("known answers", ("guarantee", "known")),
        ("known tables", ("guarantee", "published")),
    ):
        if _at(one, place) != _at(two, place):
            raise InvalidInputError(
                f"the releases have different {what}, so they are not of the same people; ask each"
            )
    counts = [None if part.public is None else part.public.counts for part in (first, other)]
    if counts[0] != counts[1] or not first.strategy.public.agrees(other.strategy.public):
        raise InvalidInputError(
            "the releases have different public numbers of records, so they are not of the same"
            " people; ask each"
        )
    if any(law.kind is Noise.CUBE for part in (first, other) for law in part.laws):
        raise InvalidInputError("releases with cube noise are not combined; ask each of them")


def _at(manifest: Mapping[str, Any], place: Sequence[str]) -> Any:
    value: Any = manifest
    for key in place:
        value = value.get(key)
    return value


def words_of(manifests: Sequence[Mapping[str, Any]]) -> str:
    """What all releases promise together, in a sentence."""
    promises = [manifest["guarantee"] for manifest in manifests]
    if len(promises) == 1:
        return str(promises[0]["words"])
    if any("alpha" in promise for promise in promises):
        return "of each release alone: pointwise maximal leakage does not add up"
    guarantee = _together(manifests)
    rows = as_participation(promises[0]["participation"])
    return guarantee.describe(manifests[0]["cells"]) + ("" if rows is None else rows.sentence)


def _together(manifests: Sequence[Mapping[str, Any]]) -> Guarantee:
    """The guarantee of all releases, at the sum of their deltas."""
    promise, curve = manifests[0]["guarantee"], composed([*map(_curve, manifests)])
    delta = math.fsum(manifest["guarantee"].get("delta") or 0.0 for manifest in manifests)
    relation = promise["neighbours"]
    gaussian = any(manifest["noise"]["law"] == "discrete gaussian" for manifest in manifests)
    found: PureDP | ApproxDP
    if gaussian:
        delta = delta or 1e-6
        found = ApproxDP(float(at_least(curve.epsilon(delta))), delta, relation)
    else:
        found = PureDP(float(at_least(curve.ratio)), relation)
    return replace(found, **{key: promise.get(key, "") for key in ("known", "published")})


def _curve(manifest: Mapping[str, Any]) -> PrivacyCurve:
    """What the noise of a release satisfies."""
    noise = manifest["noise"]
    distance = Fraction(manifest["lattice"]["sensitivity"])
    if noise["law"] == "discrete gaussian":
        ratio = root_above(distance / Fraction(noise["sigma"]) ** 2)
        return PrivacyCurve(Noise.GAUSSIAN, ratio * (1 + SENSITIVITY_ROUNDING))
    return pure_curve(float_above("epsilon", distance / Fraction(noise["parameter"])))
