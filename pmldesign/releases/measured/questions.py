r"""Further questions: which of them the measurements determine, and the nearest ones that they do.

A query a is determined if a = a R^+ R. The nearest one that is, is its projection a R^+ R, and it
differs by norm(a - a R^+ R) / norm(a). Of a product of attributes that is not determined, smaller
ones may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.releases.estimates import estimated, require_histogram
from pmldesign.releases.intervals import half_widths
from pmldesign.releases.measured.measurements import Answers, Measurements
from pmldesign.releases.nonlinear import roots_of
from pmldesign.releases.people.factors import Factor, total_factor
from pmldesign.releases.people.queries import (
    Named,
    labels_of,
    named_queries,
    parse_queries,
    product_of,
    roots_asked,
)
from pmldesign.releases.people.schema import Schema
from pmldesign.releases.post_processing import require_whole_cells
from pmldesign.strategies.arguments import ANSWER_TOLERANCE
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.beside import given_invariants
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.operators.operator import Array

MOST_NAMES = 6
"""Attributes of a product whose smaller products are tried."""


def answered(
    measured: Measurements,
    queries: Workload,
    *,
    level: float,
    simultaneous: bool,
    steps: tuple[bool, bool],
    nearest: bool,
) -> Answers:
    """The answers to queries, of the schema of the measurements; else as `Measurements.ask`."""
    schema = measured.schema
    _require_schema(measured, schema)
    queries = queries.unweighted or queries
    named = named_queries(queries, schema)
    queries, labels = _asked(measured, queries, named, nearest=nearest)
    require_histogram(queries, whole=any(steps))
    if steps[1]:
        require_whole_cells(schema, measured.strategy.public)
    noise = measured.noise_of(queries)
    widths = half_widths(noise, level, simultaneous=simultaneous)
    estimate = estimated(
        measured.strategy, measured.values, queries, measured.public, measured.queries
    )
    roots = roots_asked(named)
    parts = roots_of(noise, roots, level, simultaneous=simultaneous) if roots else []
    table = measured.table(estimate, queries, labels, (noise.deviations, widths), steps, parts)
    done = zip(("nonnegative", "integers"), steps, strict=True)
    return Answers(table, tuple(name for name, asked in done if asked))


def _asked(
    measured: Measurements, queries: Workload, named: Named | None, *, nearest: bool
) -> tuple[Workload, dict[str, list[str]]]:
    """Queries, or the projections of those that are not determined, and their labels."""
    asked = given_invariants(queries, measured.strategy.public)
    labels, schema = labels_of(queries, named), measured.schema
    try:
        measured.strategy.require_answers(asked)
    except InvalidInputError as error:
        if len(next(iter(labels.values()))) != queries.shape[0]:
            raise InvalidInputError(
                f"the means, shares or quantiles of {queries.name!r:.60} are not determined by"
                " what was measured; ask for sums and counts that are"
            ) from None
        projection = _projection(measured, asked)
        if projection is None:
            told = "" if nearest else _determined(measured, queries, schema)
            raise InvalidInputError(f"{error}{told}") from None
        shares, projected = projection
        if not nearest:
            raise _undetermined(measured, queries, (schema, labels), shares) from None
        rows = np.where((shares > ANSWER_TOLERANCE)[:, None], projected, queries.to_dense())
        labels = {**labels, "differs": [f"{share:.3g}" for share in shares]}
        return DenseWorkload(rows, name=queries.name), labels
    return queries, labels


def _require_schema(measured: Measurements, schema: Schema | None) -> None:
    stated = measured.manifests[0]["sha256"]["schema"]
    if schema is not None and schema.digest != stated:
        raise InvalidInputError(
            "the schema is not that of the release; take the file that it was made with, and ask "
            "what is without attributes without a schema"
        )


def _projection(measured: Measurements, asked: Workload) -> tuple[Array, Array] | None:
    """How far queries are from determined ones, relative, shape (m,), and these, (m, n).

    None if these would be too large.
    """
    strategy, (m, n) = measured.strategy, asked.shape
    if asked.shape[1] != strategy.cells or n * max(m, n, strategy.shape[0]) > MAX_ENTRIES:
        return None
    rows = asked.to_dense()
    projected = (rows @ strategy.pseudo_inverse) @ strategy.matrix
    sizes = np.linalg.norm(rows, axis=1)
    left = np.linalg.norm(rows - projected, axis=1)
    shares = np.divide(left, sizes, where=sizes > 0, out=np.zeros(m))
    return np.where(shares > ANSWER_TOLERANCE, shares, 0.0), projected


def _undetermined(
    measured: Measurements,
    queries: Workload,
    named: tuple[Schema | None, dict[str, list[str]]],
    shares: Array,
) -> InvalidInputError:
    """Which queries are not determined, and which are."""
    missed, (schema, labels) = np.flatnonzero(shares), named
    called = [f"{name}={values[missed[0]]}" for name, values in labels.items()]
    first = ", ".join(text for text in called if not text.endswith("=*")) or "the total"
    told = _determined(measured, queries, schema)
    ends = dict.fromkeys(f"{share:.0%}" for share in (shares[missed].min(), shares[missed].max()))
    return InvalidInputError(
        f"{len(missed)} of {len(shares)} queries are not determined by what was measured, the first"
        f" is {first}; the nearest ones that are differ by {' to '.join(ends)}, and `nearest=True`"
        f" answers these{told}"
    )


def _determined(measured: Measurements, queries: Workload, schema: Schema | None) -> str:
    """Which tables within the queries the measurements determine, for a message."""
    names = dict.fromkeys(_smaller(measured, queries, schema)) if schema is not None else {}
    return f"; of these attributes it determines {' + '.join(names)}" if names else ""


def _smaller(measured: Measurements, queries: Workload, schema: Schema) -> Iterator[str]:
    """The largest determined products within those that are asked for and are not determined."""
    for part in getattr(parse_queries(queries.name, schema), "parts", ()):
        named = [i for i, factor in enumerate(part) if factor.text and not factor.is_total]
        found: list[set[int]] = []
        for count in reversed(range(min(len(named), MOST_NAMES) + 1)):
            for kept in combinations(named, count):
                if any(set(kept) <= larger for larger in found):
                    continue
                every = enumerate(zip(part, schema.attributes, strict=True))
                factors = [
                    f if (i if f.text else i - 1) in kept else total_factor(a)
                    for i, (f, a) in every
                ]
                if _is_determined(measured, product_of(factors, schema)):
                    found.append({*kept})
        if {*named} not in found:
            for names in found:
                texts = [_factor_text(schema, i, part[i]) for i in sorted(names)]
                yield "*".join(texts) or "total"


def _is_determined(measured: Measurements, queries: Workload) -> bool:
    try:
        measured.strategy.require_answers(given_invariants(queries, measured.strategy.public))
    except InvalidInputError:
        return False
    return True


def _factor_text(schema: Schema, index: int, factor: Factor) -> str:
    """A factor as queries by name have it."""
    if factor.asked:
        return factor.asked
    kind, _, rest = factor.text.partition(":")
    arguments = rest.partition(",")[2]
    ranges = ",".join(filter(None, [kind, arguments]))
    return schema.names[index] if kind == "histogram" else f"{schema.names[index]}:{ranges}"
