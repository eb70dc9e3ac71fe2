r"""The noisy measurements of a release: all that left the data, and what every answer is made of.

    y = R' x + noise,    answer to A:  L y,  L = A R'^+,    variances diag(L Sigma L^T)

Whatever lies in the row space of R' is answered without any further cost. The estimate of the cells
R'^+ y is rounded as it was for the queries that were released, so that these have the answers that
were published, also when they are asked one by one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.files.atomic import PathName, atomic_write
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.release.estimates import Estimate, rounded_answers
from pmldesign.release.noise.law import AnswerNoise, NoiseLaw
from pmldesign.release.people.schema import Schema, as_schema
from pmldesign.release.post_processing import cut_intervals, nonnegative_cells, whole_cells
from pmldesign.release.public_counts import PublicCounts
from pmldesign.release.tables import ReleasedTable, decimals_for, table_bytes
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.display import Drawn
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, eq=False)
class Answers:
    """What was asked of measurements.

    Attributes:
        table: a row for each query.
        quantiles: a row for each that was asked for.
        post_processing: what was done to the estimates, "nonnegative" or "integers".
    """

    table: ReleasedTable
    quantiles: tuple[dict[str, str | float], ...] = ()
    post_processing: tuple[str, ...] = ()

    def write(self, path: PathName) -> None:
        """Write the table, .csv or .parquet, with what was done to it, and quantiles beside it.

        Raises:
            FileError: another extension, or it cannot be written.
        """
        from pmldesign.release.result import beside_path, csv_text

        if self.quantiles:
            with atomic_write(beside_path(path, "quantiles"), "w") as handle:
                handle.write(csv_text(self.quantiles))
        labels = dict(self.table.labels)
        if self.post_processing:
            labels["afterwards"] = [" ".join(self.post_processing)] * len(self.table.estimate)
        with atomic_write(path, "wb") as handle:
            handle.write(table_bytes(path, replace(self.table, labels=labels)))


@dataclass(frozen=True, eq=False)
class Measurements(Drawn):
    """Noisy measurements, and what is published of their noise.

    Attributes:
        strategy: R', beside what is public.
        values: y, without the part that is public; shape (r,).
        laws: of the noise on runs of measurements, of equal deviation.
        public: numbers of records that are public; None where none are.
        manifests: of the releases.
        queries: those that were released, with what is public; None if that is not known.
        decimals: of the estimates that were published; None for several releases.
        identity: of the release, by which its versions are told from other releases.
        schema: of the release, where it was given; texts are then questions by its names.
    """

    strategy: Strategy
    values: Array
    laws: tuple[NoiseLaw, ...]
    public: PublicCounts | None
    manifests: tuple[Mapping[str, Any], ...]
    queries: Workload | None = None
    decimals: int | None = None
    identity: str = field(default_factory=partial(secrets.token_hex, 16))
    schema: Schema | None = None

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the guarantee speaks of."""
        return Neighbours(self.manifests[0]["guarantee"]["neighbours"])

    def noise_of(self, queries: Workload) -> AnswerNoise:
        """The noise of answers.

        Raises:
            InvalidInputError: the measurements do not determine them.
        """
        asked = queries.beside(self.strategy.public)
        self.strategy.require_answers(asked)
        return AnswerNoise(Factorization(asked, self.strategy, self.neighbours), self.laws)

    def ask(
        self,
        queries: Any,
        *,
        schema: Any = None,
        level: float | None = None,
        simultaneous: bool = False,
        nonnegative: bool = False,
        integers: bool = False,
        quantiles: Mapping[str, Sequence[float]] | None = None,
        nearest: bool = False,
    ) -> Answers:
        """Answer further queries, at no further cost.

        Args:
            queries: whatever `pmldesign.workload` takes; with a schema names of attributes.
            schema: that of the release, where the measurements were read without it.
            level: of the intervals, in (0, 1); None for that of the release.
            simultaneous: whether the intervals of these queries hold together.
            nonnegative: answers of the histogram without negative cells that is closest to the
                answers that were released; these are biased.
            integers: of whole cells.
            quantiles: for names of attributes the q in (0, 1); needs a schema.
            nearest: in place of queries that the measurements do not determine answer their
                projections, and say how far these are.

        Raises:
            FileError: a file cannot be read.
            InvalidInputError: another schema, or queries that are not determined.
        """
        import pmldesign
        from pmldesign.release.measured.questions import question

        form = self.schema if schema is None else as_schema(schema)
        asked = pmldesign.workload(queries, schema=form)
        return question(self, asked, form, nearest=nearest).answered(
            level=self.manifests[0]["intervals"]["level"] if level is None else level,
            simultaneous=simultaneous,
            steps=(nonnegative, integers),
            quantiles=quantiles or {},
        )

    def table(
        self,
        estimate: Estimate,
        queries: Workload,
        labels: dict[str, list[str]],
        spread: tuple[Array, Array],
        steps: tuple[bool, bool],
    ) -> ReleasedTable:
        """The table of answers.

        Args:
            estimate: what the measurements say about the queries.
            queries: A, with what is public.
            labels: of the queries.
            spread: standard deviations of the answers and half-widths of their intervals.
            steps: whether cells may not be negative, and whether they are to be whole.
        """
        (deviations, widths), (nonnegative, integers) = spread, steps
        decimals = self.decimals
        if decimals is None:
            decimals = decimals_for(estimate.summed, deviations, estimate.size)
        raw, moved = estimate.answers(decimals)
        factor = 10.0**decimals
        widths = np.ceil((widths + moved) * factor) / factor
        table = ReleasedTable(labels, raw, deviations, raw - widths, raw + widths, decimals)
        if (cells := estimate.cells) is None or not (nonnegative or integers):
            return table
        like, public = self.queries or queries, self.public
        if nonnegative:
            cells = nonnegative_cells(like, cells, public=public)
        if integers:
            cells = whole_cells(like, cells, public=public)
            decimals = 0
        answers, _ = rounded_answers(queries, cells, decimals, public, like)
        largest = None
        if nonnegative and queries.non_negative:
            largest = np.inf if public is None else public.largest(queries)
        ends = cut_intervals(table.lower, table.upper, answers, largest=largest, whole=integers)
        return replace(table, estimate=answers, lower=ends[0], upper=ends[1], decimals=decimals)

    def write(self, path: PathName) -> None:
        """Write the measurements of one release: .npz, all of it publishable.

        Raises:
            FileError: another ending, or it cannot be written.
            InvalidInputError: several releases, or a strategy that is too large.
        """
        from pmldesign.release.measured.files import write_measurements

        write_measurements(path, self)

    def coarser(self, guarantee: Guarantee) -> Measurements:
        """A version with more noise: both together cost what these measurements cost.

        For one release with Gaussian noise: these are for partners, the coarser ones for all.

        Args:
            guarantee: what the coarser version keeps by itself, for the same neighbours.

        Raises:
            InvalidInputError: other noise, or a guarantee that asks for no more of it.
        """
        from pmldesign.release.measured.versions import coarser

        return coarser(self, guarantee)

    def to_mbi(self, schema: Any = None) -> tuple[Any, list[Any]]:
        """A domain and measurements of the package mbi, which makes synthetic data of them.

        Args:
            schema: that of the release, where the measurements were read without it.

        Raises:
            FileError: the schema cannot be read.
            InvalidInputError: mbi is not installed, no schema or another one, or too many
                measurements.
        """
        from pmldesign.release.measured.synthetic import to_mbi

        form = self.schema if schema is None else as_schema(schema)
        if form is None:
            raise InvalidInputError("the attributes are not known; give the schema of the release")
        return to_mbi(self, form)
