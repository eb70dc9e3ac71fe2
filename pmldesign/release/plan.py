"""A release that is planned: all that does not depend on the data, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.files.atomic import PathName
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.release.intervals import deviations, half_widths
from pmldesign.release.manifest import manifest_of
from pmldesign.release.noise.exact import ExactNoise, exact_noise, require_agreement
from pmldesign.release.noise.integers import Integers
from pmldesign.release.noise.sampler import Sampler, draw
from pmldesign.release.people.histogram import count_people, read_histogram
from pmldesign.release.people.queries import parse_queries
from pmldesign.release.people.schema import Schema, as_schema
from pmldesign.release.post_processing import (
    adds_cells,
    cut_intervals,
    nonnegative_cells,
    whole_cells,
)
from pmldesign.release.quantiles import Band, bands
from pmldesign.release.result import Release
from pmldesign.release.tables import Table, decimals_for, rounded_answers
from pmldesign.workloads import Workload
from pmldesign.workloads.public_total import CentredWorkload
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, eq=False)
class Plan:
    """All of a release that does not depend on the data.

    Attributes:
        noise: the mechanism on its lattice.
        schema: of the people; None for a histogram.
        widths: half-widths of the intervals, shape (m,).
        manifest: what is published beside the table.
        nonnegative: whether cells may not be negative.
        integers: whether cells are to be whole.
        bands: quantiles that are asked for.
    """

    noise: ExactNoise
    schema: Schema | None
    widths: Array
    manifest: dict[str, Any]
    nonnegative: bool = False
    integers: bool = False
    bands: tuple[Band, ...] = ()

    def histogram(self, data: Any) -> Integers:
        """The data as counts, checked.

        Raises:
            InvalidInputError, FileError: as `release`.
        """
        cells = self.noise.mechanism.workload.shape[1]
        if self.schema is None:
            histogram = read_histogram(data, cells)
        else:
            histogram = count_people(data, self.schema)
        require_whole_people(histogram, self.noise)
        return histogram

    def publish(self, histogram: Integers, sampler: Sampler = draw) -> Release:
        """Draw the noise, and make the table."""
        cells, total = estimated_cells(self.noise, histogram, sampler)
        content = dict(self.manifest)
        if total is not None:
            content["records"] = total
        queries, spreads = asked(self.noise.mechanism.workload), deviations(self.noise)
        decimals = decimals_for(len(cells), spreads, float(np.abs(cells).sum()))
        raw, moved = rounded_answers(queries, cells, decimals)
        factor = 10.0**decimals
        widths = np.ceil((self.widths + moved) * factor) / factor
        table = Table(
            labels_of(queries, self.schema), raw, spreads, raw - widths, raw + widths, decimals
        )
        if self.nonnegative or self.integers:
            table = self._processed(table, queries, cells, total)
        return Release(table, content, tuple(band.read(cells) for band in self.bands))

    def _processed(self, table: Table, queries: Workload, cells: Array, total: int | None) -> Table:
        """The table without negative, or with whole numbers."""
        if self.nonnegative:
            spreads = table.standard_deviation
            cells = nonnegative_cells(queries, cells, spreads, total=total)
        if self.integers:
            cells = whole_cells(cells)
        decimals = 0 if self.integers else table.decimals
        answers, _ = rounded_answers(queries, cells, decimals)
        lower, upper = cut_intervals(
            table.lower,
            table.upper,
            answers,
            nonnegative=self.nonnegative and adds_cells(queries),
            whole=self.integers,
        )
        return replace(table, estimate=answers, lower=lower, upper=upper, decimals=decimals)


def prepare(
    mechanism: Mechanism,
    *,
    schema: Schema | Mapping[str, Any] | PathName | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    nonnegative: bool = False,
    integers: bool = False,
    quantiles: Mapping[str, Sequence[float]] | None = None,
    sampler: Sampler = draw,
) -> Plan:
    """Everything before the data are read; arguments and errors as `release`."""
    form, rows = None if schema is None else as_schema(schema), 1
    if form is not None:
        form.require_release(mechanism.neighbours)
        rows = form.rows_per_person
        if form.cells != mechanism.workload.shape[1]:
            raise InvalidInputError(
                f"the schema has {form.cells} cells, the workload "
                f"{mechanism.workload.shape[1]}; write the workload with names of attributes"
            )
    noise = exact_noise(mechanism, rows_per_person=rows)
    if sampler is draw:
        require_agreement(noise)
    widths = half_widths(noise, level, simultaneous=simultaneous)
    if quantiles and form is None:
        raise InvalidInputError("quantiles are of attributes: they need a schema")
    wanted = tuple(bands(noise, form, quantiles, level)) if form is not None and quantiles else ()
    steps = {"nonnegative": nonnegative, "integers": integers}
    content = manifest_of(
        noise,
        schema=form,
        level=level,
        simultaneous=simultaneous,
        post_processing=[name for name, done in steps.items() if done],
        sampler=sampler,
    )
    return Plan(noise, form, widths, content, nonnegative, integers, wanted)


def require_whole_people(histogram: Integers, noise: ExactNoise) -> None:
    """Refuse a number of rows that people with k rows each cannot have, where it is public.

    Raises:
        InvalidInputError: it is no multiple of k.
    """
    k = noise.rows_per_person
    if noise.mechanism.neighbours is Neighbours.REPLACE and int(histogram.sum()) % k:
        raise InvalidInputError(
            f"under replace everybody has exactly {k} rows, and {int(histogram.sum())} rows are no "
            f"multiple of {k}; take add-remove neighbours, for which {k} is the most"
        )


def estimated_cells(
    noise: ExactNoise, histogram: Integers, sampler: Sampler
) -> tuple[Array, int | None]:
    """The estimate of the histogram, shape (n,), and the number of records where it is public."""
    measured = noise.measure(histogram, sampler=sampler)
    cells = noise.lattice.estimator.estimate(measured)
    if noise.mechanism.neighbours is Neighbours.ADD_REMOVE:
        return cells, None
    total = int(histogram.sum())
    return cells - cells.mean() + total / len(cells), total


def asked(workload: Workload) -> Workload:
    """A, with its total."""
    return workload.workload if isinstance(workload, CentredWorkload) else workload


def labels_of(queries: Workload, schema: Schema | None) -> dict[str, list[str]]:
    """Labels of the attributes, or the numbers of the queries."""
    if schema is not None:
        with suppress(InvalidInputError):
            named = parse_queries(queries.name, schema)
            labels = named.labels()
            if all(len(column) == queries.shape[0] for column in labels.values()):
                return labels
    return {"query": [str(number) for number in range(queries.shape[0])]}
