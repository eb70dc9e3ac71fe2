r"""The noisy measurements of a release: all that left the data, and the source of every answer.

    y = R' x + noise,    answer to A:  L y,  L = A R'^+,    variances diag(L Sigma L^T)

Whatever lies in the row space of R' is answered without any further cost. The estimate of the cells
R'^+ y is rounded as it was for the queries that were released, so that these have the answers that
were published, also when they are asked one by one.

A coarser version has the difference of the noise added. Partners have y = Z x + eta with discrete
Gaussian noise of parameter s; published is y + eta' with eta' of parameter s', s'^2 = t^2 - s^2.
What is published is a function of y and of noise that depends on nothing, so that both together
cost what y alone costs. By itself it is discrete Gaussian noise of parameter t around Z x: where
1/(1/s^2 + 1/s'^2) >= 4, the sum of both is within e^(+-2 kappa) of it, kappa as in `release.noise`
[Peikert, Theorem 3.1], which the sensitivity covers.

References:
    Peikert (2010), An efficient and parallel Gaussian sampler for lattices.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import flags
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.files.atomic import PathName, atomic_write
from pmldesign.mechanisms.lattice import SENSITIVITY_ROUNDING
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale
from pmldesign.privacy.calibration import gaussian_scale
from pmldesign.privacy.guarantees import ApproxDP, CurrencyGuarantee, Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import root_above
from pmldesign.releases.estimates import Estimate, estimated, rounded_answers
from pmldesign.releases.manifest import promise_of
from pmldesign.releases.noise import SMOOTHING, AnswerNoise, NoiseLaw, gaussian_parameter
from pmldesign.releases.nonlinear import Roots, with_roots
from pmldesign.releases.people.schema import Schema, as_schema, schema_of
from pmldesign.releases.post_processing import cut_intervals, nonnegative_cells, whole_cells
from pmldesign.releases.public_counts import PublicCounts
from pmldesign.releases.result import ReleasedTable, decimals_for, table_bytes
from pmldesign.releases.sampler import Sampler, draw
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.persons import as_person_rows
from pmldesign.workloads import Workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.display import Displayed, Drawn, Facts
from pmldesign_solvers.operators.operator import Array

EXACT = 2.0**50
"""Integers below are distinguished from their products with a unit."""


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Displayed):
    """What was asked of measurements.

    Attributes:
        table: a row for each query.
        post_processing: steps applied to the estimates, "nonnegative" or "integers".
    """

    table: ReleasedTable
    post_processing: tuple[str, ...] = ()

    def to_frame(self) -> Any:
        """The table as a data frame of pandas if installed, else of polars.

        Raises:
            InvalidInputError: neither is installed.
        """
        return self.table.to_frame()

    def _display(self) -> tuple[str, Facts]:
        return f"Answers: {self.table.summary}", [("after", each) for each in self.post_processing]

    def _repr_html_(self) -> str:
        return self.table.html()

    def save(self, path: PathName) -> tuple[Path, ...]:
        """Write the table, .csv or .parquet, with its post-processing.

        Returns:
            The files that are written, the table first.

        Raises:
            FileError: another extension, or it cannot be written.
        """
        labels = dict(self.table.labels)
        if self.post_processing:
            labels["afterwards"] = [" ".join(self.post_processing)] * len(self.table.estimate)
        with atomic_write(path, "wb") as handle:
            handle.write(table_bytes(path, replace(self.table, labels=labels)))
        return (Path(path),)


@dataclass(frozen=True, eq=False, repr=False)
class Measurements(Drawn, Displayed):
    """Noisy measurements, and the public facts about their noise.

    Attributes:
        strategy: R', given the invariants.
        values: y, without the part that is public; shape (r,).
        laws: of the noise on runs of measurements, of equal deviation.
        public: numbers of records that are public; None without any.
        manifests: of the releases.
        queries: those that were released, with the invariants; None if not known.
        decimals: of the estimates that were published; None for several releases.
        identity: of the release, which distinguishes its versions from other releases.
        schema: of the release, if given; texts are then questions by its names.
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
        """The neighbour relation of the guarantee."""
        return Neighbours(self.manifests[0]["guarantee"]["neighbours"])

    def _display(self) -> tuple[str, Facts]:
        released = ", ".join(repr(manifest["workload"]) for manifest in self.manifests)
        noise = ", ".join(dict.fromkeys(manifest["noise"]["law"] for manifest in self.manifests))
        title = f"Measurements of {released}: {len(self.values)} values on"
        return f"{title} {self.strategy.cells} cells", [
            ("noise", noise),
            ("guarantee", self.manifests[0]["guarantee"]["words"]),
        ]

    def noise_of(self, queries: Workload) -> AnswerNoise:
        """The noise of answers.

        Raises:
            InvalidInputError: the measurements do not determine them.
        """
        asked = given_invariants(queries, self.strategy.public)
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
        nearest: bool = False,
    ) -> Answers:
        """Answer further queries, at no further cost.

        Args:
            queries: whatever `pmldesign.workload` takes; with a schema names of attributes.
            schema: that of the release, if the measurements were read without it.
            level: of the intervals, in (0, 1); None for that of the release.
            simultaneous: whether the intervals of these queries hold together.
            nonnegative: answers of the histogram without negative cells that is closest to the
                answers that were released; these are biased.
            integers: of whole cells.
            nearest: instead of queries that the measurements do not determine, answer their
                projections and report the distances.

        Raises:
            FileError: a file cannot be read.
            InvalidInputError: another schema, or queries that are not determined.
        """
        import pmldesign
        from pmldesign.releases.measured.questions import answered

        flags(
            simultaneous=simultaneous, nonnegative=nonnegative, integers=integers, nearest=nearest
        )
        form = self.schema or schema_of(queries) if schema is None else as_schema(schema)
        asked = queries if isinstance(queries, Workload) else None
        asked = asked or pmldesign.workload(queries, schema=form)
        return answered(
            *(replace(self, schema=form), asked),
            level=self.manifests[0]["intervals"]["level"] if level is None else level,
            simultaneous=simultaneous,
            steps=(nonnegative, integers),
            nearest=nearest,
        )

    def table(
        self,
        estimate: Estimate,
        queries: Workload,
        labels: dict[str, list[str]],
        spread: tuple[Array, Array],
        steps: tuple[bool, bool],
        parts: Sequence[Roots | slice] = (),
    ) -> ReleasedTable:
        """The table of answers, without those that are too noisy.

        Args:
            estimate: the answers to the queries by the measurements.
            queries: A, with the invariants.
            labels: of the queries.
            spread: standard deviations of the answers and half-widths of their intervals.
            steps: whether cells may not be negative, and whether they are to be whole.
            parts: of the queries, if some are ratios or quantiles (`nonlinear.roots_of`).
        """
        table = self._linear(estimate, queries, labels, spread, steps)
        if parts:
            assert estimate.cells is not None
            table = with_roots(table, parts, queries.matvec(estimate.cells))
        suppress = None if self.schema is None else self.schema.suppress
        return table if suppress is None else table.without_noisy(suppress)

    def _linear(
        self,
        estimate: Estimate,
        queries: Workload,
        labels: dict[str, list[str]],
        spread: tuple[Array, Array],
        steps: tuple[bool, bool],
    ) -> ReleasedTable:
        """The table of all answers, linear ones."""
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

    def save(self, path: PathName) -> tuple[Path, ...]:
        """Write the measurements of one release: .npz, all of it publishable.

        Returns:
            The file that is written.

        Raises:
            FileError: another ending, or it cannot be written.
            InvalidInputError: several releases, or a strategy that is too large.
        """
        from pmldesign.releases.measured.files import write_measurements

        write_measurements(path, self)
        return (Path(path),)

    def coarser(self, guarantee: Guarantee) -> Measurements:
        """A version with more noise: both together cost what these measurements cost.

        For one release with Gaussian noise: these are for partners, the coarser ones for all.

        Args:
            guarantee: that of the coarser version by itself, for the same neighbours.

        Raises:
            InvalidInputError: other noise, or a guarantee that asks for no more of it.
        """
        return coarser(self, guarantee)

    def to_mbi(self, schema: Any = None) -> tuple[Any, list[Any]]:
        """A domain and measurements of the package mbi, which makes synthetic data of them.

        Args:
            schema: that of the release, if the measurements were read without it.

        Raises:
            FileError: the schema cannot be read.
            InvalidInputError: mbi is not installed, no schema or another one, or too many
                measurements.
        """
        from pmldesign.releases.measured.synthetic import to_mbi

        form = self.schema if schema is None else as_schema(schema)
        if form is None:
            raise InvalidInputError("the attributes are not known; give the schema of the release")
        return to_mbi(self, form)


def coarser(measured: Measurements, guarantee: Guarantee, sampler: Sampler = draw) -> Measurements:
    """The measurements with more noise, for a guarantee of their own.

    Args:
        measured: of one release with Gaussian noise.
        guarantee: differential privacy that Gaussian noise keeps, for the same neighbours.
        sampler: another one is for tests alone, and gives no privacy.

    Raises:
        InvalidInputError: other noise, other neighbours, or a guarantee that needs no more noise.
    """
    gaussian = len(measured.laws) == 1 and measured.laws[0].kind is Noise.GAUSSIAN
    if not gaussian or not isinstance(guarantee, ApproxDP | CurrencyGuarantee):
        raise InvalidInputError(
            "a coarser version is for one release with Gaussian noise and a guarantee of"
            " differential privacy that it keeps, such as ApproxDP(0.5, 1e-6)"
        )
    (law,), (manifest,), queries = measured.laws, measured.manifests, measured.queries
    if queries is None:
        raise InvalidInputError("the queries of the release are not known; give its schema")
    promise = manifest["guarantee"]
    if guarantee.neighbours != measured.neighbours:
        raise InvalidInputError(f"the guarantee must be for {promise['neighbours']} neighbours")
    whole = np.rint(measured.values / law.units)
    if measured.public is not None or np.abs(whole).max() >= EXACT:
        raise InvalidInputError(
            "a coarser version is for add-remove neighbours, and measurements below 2^50 units of"
            " the lattice, to which the noise is added in whole numbers"
        )
    distance = root_above(Fraction(manifest["lattice"]["sensitivity"]))
    distance *= 1 + SENSITIVITY_ROUNDING
    if isinstance(guarantee, ApproxDP):
        sigma = analytic_gaussian_scale(distance, epsilon=guarantee.epsilon, delta=guarantee.delta)
    else:
        sigma = gaussian_scale(distance, guarantee.gaussian_square)
    scale = gaussian_parameter(sigma)
    more = Fraction(scale) ** 2 - Fraction(law.scale) ** 2
    if min(more, Fraction(law.scale) ** 2) < 2 * SMOOTHING:
        raise InvalidInputError(
            "the guarantee asks for no more noise than these measurements have; take a smaller one"
        )
    added = sampler(Noise.GAUSSIAN, root_above(more), len(measured.values))
    values = (whole.astype(np.int64) + added).astype(np.float64) * law.units
    noise = {**manifest["noise"], "parameter": scale, "sigma": float(sigma)}
    rows = as_person_rows(promise["participation"] or "")
    told = promise_of(guarantee, manifest["cells"], rows)
    found = replace(
        measured,
        values=values,
        laws=(replace(law, scale=scale),),
        manifests=({**manifest, "guarantee": told, "noise": noise},),
    )
    spreads = found.noise_of(queries).deviations  # digits, too, follow from the new noise
    estimate = estimated(found.strategy, values, queries, found.public)
    return replace(found, decimals=decimals_for(estimate.summed, spreads, estimate.size))
