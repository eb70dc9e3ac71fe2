r"""Measurements of several releases of the same people, combined by generalised least squares.

With standard deviations s_1, s_2 ... of the noise of each,

    R = [R_1 / s_1; R_2 / s_2; ...],    y = [y_1 / s_1; ...],

have noise of equal variance, so that L = A R^+ has the least variance of all unbiased answers:
diag(A (sum_f R_f^T R_f / s_f^2)^+ A^T), never more than that of one file alone. R is written out
for few cells, and beyond them in the coordinates of its tables (`TableSpace`).

All releases together: epsilons of Laplace and cube noise add up, and so do squares of mu of
Gaussian noise (`privacy.composition`), for releases that were chosen after others were seen too.

Tables over sets S of attributes hold the same information as the residuals of all T within them,
with the orthonormal coordinates

    Q_T = (x)_i (H_i if i in T, else 1^T / n_i^(1/2)),    H_i contrasts (`strategies.residuals`),

together Q, of d = sum_T prod_{i in T} (n_i - 1) rows: as many numbers as the tables have of their
own. A strategy on these tables is R = B Q with B = R Q^T, so that R^+ = Q^T B^+, and an answer to a
= a Q^T Q has the variance norm(a Q^T B^+)^2. B is small even if the histogram is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.lattice import SENSITIVITY_ROUNDING
from pmldesign.privacy.composition import composed
from pmldesign.privacy.curves import PrivacyCurve, pure_curve
from pmldesign.privacy.guarantees import ApproxDP, Guarantee, PureDP
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, float_above, root_above
from pmldesign.releases.estimates import Attributes, all_within
from pmldesign.releases.measured.agreement import require_agreement
from pmldesign.releases.measured.measurements import Measurements
from pmldesign.releases.people.queries import NamedQueries, named_queries
from pmldesign.releases.people.schema import Schema
from pmldesign.strategies import Strategy
from pmldesign.strategies.arguments import ANSWER_TOLERANCE
from pmldesign.strategies.participation.schema import as_participation
from pmldesign.strategies.residuals import contrasts
from pmldesign.workloads import Workload, as_terms
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.public import Public
from pmldesign_solvers.operators.operator import Array

MOST_CELLS = 4096
"""Of several releases whose matrix is dense; its inverse takes a minute."""
MOST_COORDINATES = 4096
"""d; the inverse of B takes a minute."""
EXCESS = {Noise.GAUSSIAN: 0.0, Noise.LAPLACE: 3.0}
"""Excess kurtosis of continuous noise, which is at least that of discrete noise."""
BATCH_ENTRIES = 2**23
"""Of histograms that are measured at a time."""
PROBES = 16
"""Random histograms that decide whether a strategy or a query is one of these tables."""


def combined(parts: Sequence[Measurements], schema: Schema | None = None) -> Measurements:
    """Measurements of the same people together; a single one is left as it is.

    Args:
        parts: of one release each.
        schema: of the releases, whose names identify tables of many cells.

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
    strategy = _stacked(parts, scales, schema)
    _require_agreement(strategy, parts, scales)
    return Measurements(
        strategy,
        np.concatenate([scale * part.values for part, scale in pairs]),
        tuple(law.times(scale) for part, scale in pairs for law in part.laws),
        first.public,
        tuple(manifest for part in parts for manifest in part.manifests),
        schema=first.schema,
    )


def _require_agreement(
    strategy: Strategy, parts: Sequence[Measurements], scales: Sequence[float]
) -> None:
    """Refuse releases about different data, see `agreement`."""
    rows = strategy.seen if isinstance(strategy, TablesTogether) else strategy.matrix
    ends = np.cumsum([part.values.size for part in parts])[:-1]
    kurtoses = [
        np.concatenate([np.full(law.units.size, EXCESS[law.kind]) for law in part.laws])
        for part in parts
    ]
    values = [scale * part.values for part, scale in zip(parts, scales, strict=True)]
    require_agreement(np.split(rows, ends), values, kurtoses)


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
            f" by name (pass `schema`) that tell at most {MOST_COORDINATES} numbers together;"
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


class TableSpace:
    """The coordinates of all residuals within some sets of attributes.

    Attributes:
        sizes: number of values of each attribute.
        subsets: the sets T.
    """

    def __init__(self, sizes: Sequence[int], subsets: Sequence[Attributes]) -> None:
        self.sizes = tuple(sizes)
        within = all_within(tuple(subsets))
        self.subsets = [subset for subset in within if all(sizes[i] > 1 for i in subset)]
        self._rows = [contrasts(np.eye(n)) / math.sqrt(n) for n in self.sizes]
        self._means = [np.full((1, n), 1 / math.sqrt(n)) for n in self.sizes]
        self._shapes = [
            [n - 1 if i in subset else 1 for i, n in enumerate(self.sizes)]
            for subset in self.subsets
        ]
        self.dimensions = sum(map(math.prod, self._shapes))

    def of(self, x: Array) -> Array:
        """Q x, shape (d, c), for x of shape (n, c)."""
        parts = []
        for subset in self.subsets:
            part = x.reshape(*self.sizes, -1)
            for axis in sorted(range(len(self.sizes)), key=lambda i: i in subset):
                rows = self._rows[axis] if axis in subset else self._means[axis]
                part = np.moveaxis(np.tensordot(rows, part, axes=(1, axis)), 0, axis)
            parts.append(part.reshape(-1, x.shape[1]))
        return np.concatenate(parts)

    def histogram(self, coordinates: Array) -> Array:
        """Q^T z, shape (n, c), for z of shape (d, c)."""
        found = np.zeros((math.prod(self.sizes), coordinates.shape[1]))
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]
        for number, part in enumerate(np.split(coordinates, ends)):
            found += self._residual(number, part)
        return found

    def _residual(self, number: int, part: Array) -> Array:
        """Q_T^T z, shape (n, c), for z of shape (d_T, c)."""
        subset, found = self.subsets[number], part.reshape(*self._shapes[number], -1)
        for axis in sorted(range(len(self.sizes)), key=lambda i: i not in subset):
            rows = self._rows[axis] if axis in subset else self._means[axis]
            found = np.moveaxis(np.tensordot(rows, found, axes=(0, axis)), 0, axis)
        return found.reshape(-1, part.shape[1])

    def seen(self, ask: Callable[[Array], Array], rows: int) -> Array:
        """M Q^T, shape (r, d), for x -> M x on several histograms."""
        check_entries("the measurements of tables", (rows, self.dimensions))
        step, parts = max(1, BATCH_ENTRIES // math.prod(self.sizes)), []
        for number, shape in enumerate(self._shapes):
            unit = np.eye(math.prod(shape))
            for start in range(0, len(unit), step):
                parts.append(ask(self._residual(number, unit[:, start : start + step])))
        return np.hstack(parts)

    def left(self, ask: Callable[[Array], Array], seen: Array) -> Array:
        """Relative part of each row of M that is in no table, estimated with random histograms."""
        x = np.random.default_rng(0).standard_normal((math.prod(self.sizes), PROBES))
        whole = ask(x)
        missing = np.linalg.norm(whole - seen @ self.of(x), axis=1)
        size = np.linalg.norm(whole, axis=1)
        return _relative(missing, size)


class TablesTogether(Strategy):
    """Several strategies on tables, one below the other.

    Args:
        space: of their tables.
        seen: B.
        public: the invariants, which no table determines.
    """

    def __init__(self, space: TableSpace, seen: Array, public: Public) -> None:
        self.name, self.public = "several releases", public
        self._space, self.seen = space, seen
        self.shape = len(seen), math.prod(space.sizes)
        self._asked: tuple[Workload, Array] | None = None

    @cached_property
    def matrix(self) -> Array:
        """R, shape (r, n); refused if too large."""
        check_entries("the matrix of several releases", self.shape)
        return self._space.histogram(self.seen.T).T

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        inverse = self._inverse_of_seen
        return self._space.histogram(inverse), int(np.rint(np.einsum("ij,ji", inverse, self.seen)))

    @cached_property
    def _inverse_of_seen(self) -> Array:
        return np.asarray(np.linalg.pinv(self.seen, rcond=1e-11))

    def measure(self, x: Array) -> Array:
        """R x."""
        return np.asarray(self.seen @ self._space.of(x.reshape(self.cells, -1))).reshape(
            -1, *x.shape[1:]
        )

    def estimate(self, measurements: Array) -> Array:
        """R^+ y."""
        found = self._inverse_of_seen @ measurements.reshape(self.shape[0], -1)
        return self._space.histogram(found).reshape(-1, *measurements.shape[1:])

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine, as `Strategy`."""
        seen = self._of(workload)
        left = self._space.left(workload.matvec, seen)
        missing = np.linalg.norm(seen - seen @ self._inverse_of_seen @ self.seen, axis=1)
        size = np.linalg.norm(seen, axis=1)
        left = np.maximum(left, _relative(missing, size))
        missed = np.flatnonzero(left > ANSWER_TOLERANCE)
        if missed.size:
            raise InvalidInputError(
                f"several releases cannot answer {workload.row_label(int(missed[0]))}: it lies"
                " outside what they measure"
            )

    def reconstruction(self, workload: Workload) -> Array:
        """L = A R^+, shape (m, r)."""
        self.require_answers(workload)
        return np.asarray(self._of(workload) @ self._inverse_of_seen)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,)."""
        return np.asarray(np.square(self.reconstruction(workload)).sum(axis=1))

    def _of(self, workload: Workload) -> Array:
        """A Q^T, kept for the workload that was asked last."""
        if self._asked is None or self._asked[0] is not workload:
            rows = workload.shape[0]
            self._asked = workload, self._space.seen(workload.matvec, rows)
        return self._asked[1]


def _relative(part: Array, size: Array) -> Array:
    return np.asarray(np.divide(part, size, where=size > 0, out=np.zeros(len(size))))


def tables_together(
    strategies: Sequence[tuple[Strategy, Workload | None]],
    scales: Sequence[float],
    schema: Schema | None,
) -> Strategy | None:
    """The strategies with their scales in coordinates; None if coordinates do not determine them.

    Args:
        strategies: each with the queries that were released.
        scales: factors of its measurements.
        schema: of the releases.
    """
    first, cells = strategies[0][0], strategies[0][0].cells
    told = [_tables_of(queries, schema) for _, queries in strategies]
    if cells > MAX_PRODUCT_CELLS or None in told:
        return None
    (sizes, *others), subsets = zip(*(part for part in told if part is not None), strict=True)
    space = TableSpace(sizes, [subset for part in subsets for subset in part])
    same = all(other == sizes for other in others) and math.prod(sizes) == cells
    if not same or space.dimensions > MOST_COORDINATES:
        return None
    parts = []
    for (strategy, _), scale in zip(strategies, scales, strict=True):
        seen = space.seen(strategy.measure, strategy.shape[0])
        if space.left(strategy.measure, seen).max() > ANSWER_TOLERANCE:
            return None
        parts.append(scale * seen)
    return TablesTogether(space, np.vstack(parts), first.public)


def _tables_of(
    queries: Workload | None, schema: Schema | None
) -> tuple[tuple[int, ...], list[Attributes]] | None:
    """Sizes of the attributes and the sets that are asked; None without tables."""
    if queries is None:
        return None
    terms = as_terms(queries)
    if terms.domain == schema.sizes if schema else len(terms.domain) > 1:
        return terms.domain, list(terms.subsets)
    named = named_queries(queries, schema)
    if schema is None or not isinstance(named, NamedQueries):
        return None
    parts = (
        tuple(i for i, factor in enumerate(part) if not factor.is_total) for part in named.parts
    )
    return schema.sizes, list(parts)
