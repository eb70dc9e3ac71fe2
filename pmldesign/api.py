"""Public functions that validate and read their arguments before they call the package below.

`pmldesign.workload`, `strategy`, `calibrate`, `bounds`, `verify`, `read` and `write`. The others
are in their packages: `factorize` and `optimize` in `designs`, `mechanism` in `mechanisms`,
`compare` in `comparison`, `release` in `releases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Literal, TypeAlias, Unpack

from numpy.typing import ArrayLike

from pmldesign.arguments import exponent, instance, named_arguments
from pmldesign.designs.dispatch import factorize
from pmldesign.designs.optimized import Optimized
from pmldesign.designs.options import DesignArguments, takes_options
from pmldesign.designs.results import Design
from pmldesign.error_bounds import Bounds, all_bounds
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import with_known
from pmldesign.files import (
    load_workload,
    read_strategy,
    read_workload,
    write_strategy,
    write_workload,
)
from pmldesign.files.kinds import kind_of
from pmldesign.files.verification import verify_file as verify_against
from pmldesign.files.workloads import is_matrix_path
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.calibration import Calibration
from pmldesign.privacy.calibration import calibrate as calibrate_strategy
from pmldesign.privacy.guarantees import Guarantee, require_guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.releases.costs.ledger import Ledger
from pmldesign.releases.measured.files import read_measurements
from pmldesign.releases.measured.measurements import Answers, Measurements
from pmldesign.releases.people.queries import parse_queries
from pmldesign.releases.people.schema import Schema, SchemaLike, as_schema, read_schema, schema_of
from pmldesign.releases.result import Release
from pmldesign.store import Kind
from pmldesign.strategies import Strategy, StrategyLike, as_strategy
from pmldesign.strategies.participation.schema import AnyParticipation, as_participation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.verifier import Verification
from pmldesign.workloads import Workload, WorkloadLike, as_workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.invariants import as_public
from pmldesign.workloads.weighting import weighted


@named_arguments
def workload(
    value: WorkloadLike | Path,
    *,
    schema: SchemaLike | None = None,
    weights: ArrayLike | None = None,
) -> Workload:
    """The queries to answer.

    Args:
        value: a name such as "prefix:64" (names are joined by * for products and by + for unions),
            a file (.npy, .npz, .csv or .mtx), a matrix of shape (m, n) with a row for each query
            and a column for each cell, dense or sparse, a data frame of that form, or a Workload.
        schema: of people: a path, a dictionary, or a `Schema`. A text then names its attributes, as
            "sex*age + region" or "age:prefix". The workload keeps it: designs, errors and releases
            are about its people.
        weights: positive, shape (m,), or one number for all queries: the weight of each error.
            The workload is then diag(weights) A, and errors count the weights;
            `Mechanism.unweighted` has those without.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: the contents are not a workload, the name is not known, or weights do
            not fit or are not positive.
    """
    form = None if schema is None else as_schema(schema)
    if form is not None and isinstance(value, str) and not is_matrix_path(value):
        queries = parse_queries(value, form).workload
    elif isinstance(value, Path):
        queries = read_workload(value)
    else:
        queries = load_workload(value) if isinstance(value, str) else as_workload(value)
    if form is not None:
        if form.cells != queries.shape[1]:
            raise InvalidInputError(
                f"the schema has {form.cells} cells, the workload {queries.shape[1]}; write the"
                " workload with names of attributes"
            )
        whole = copy(queries.whole)  # one that is given belongs to the caller
        whole.schema, whole._beside = form, None
        queries = given_invariants(whole, queries.public)
    return queries if weights is None else weighted(queries, weights)


_queries = workload
"""The function, where an argument has its name."""


@named_arguments
def strategy(value: StrategyLike | Path, workload: WorkloadLike | None = None) -> Strategy:
    """The strategy that `value` describes.

    Args:
        value: a file of `pmldesign optimize` or `write` (.npz), any other matrix file, the
            name of a baseline ("tree") for the workload that is given, a matrix of shape (r, n)
            with a row for each measurement, or an object that has a strategy.
        workload: the queries to answer; without one a name is that of a workload, whose own
            queries are measured.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: the contents are not a strategy, or the name is not known.
    """
    if isinstance(value, Path) or (isinstance(value, str) and is_matrix_path(value)):
        return read_strategy(value)
    return as_strategy(value, None if workload is None else as_workload(workload))


@named_arguments
def calibrate(
    strategy: StrategyLike,
    guarantee: Guarantee,
    *,
    noise: Noise | Literal["gaussian", "laplace", "cube"],
    participation: AnyParticipation | str | None = None,
    known: WorkloadLike | None = None,
    allow_vacuous: bool = False,
) -> Calibration:
    """Smallest scale of the noise on R x that meets the guarantee.

    Args:
        strategy: R, whatever `strategy` takes: a matrix, a Strategy, a factorization, the name of a
            workload whose own queries are measured.
        guarantee: the guarantee to be met.
        noise: "gaussian" or "laplace".
        participation: how often a person takes part in the steps of a stream, such as
            "16,every=64"; None for that of the strategy, or once.
        known: queries whose answers are public and not protected: "total", or whatever
            `workload` takes; neighbours are then "replace" and leave the answers as they are.
        allow_vacuous: accept a guarantee that needs no noise at all, and return scale 0.

    Raises:
        InvalidInputError: an argument out of range, or alpha not fit for the number of cells.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: R x itself satisfies the guarantee, which protects no one.
    """
    require_guarantee(guarantee)
    measured, schema = as_strategy(strategy), as_participation(participation)
    if schema is not None:
        measured = with_participation(measured, schema)
    if known is not None:
        public = as_public(known, measured.cells)
        guarantee = guarantee.beside(public)
        measured = measured.beside(public) if public.name else measured
    return calibrate_strategy(measured, guarantee, noise=noise, allow_vacuous=allow_vacuous)


@takes_options
def bounds(
    workload: WorkloadLike | Design,
    guarantee: Guarantee,
    *,
    p: float | None = None,
    errors: Mapping[str, float] | None = None,
    known: WorkloadLike | None = None,
    **options: Unpack[DesignArguments],
) -> Bounds:
    """Every known bound on the error of mechanisms that meet a guarantee.

    Args:
        workload: what `workload` takes, or a factorization of it, which saves the solver's work.
        guarantee: the guarantee that the mechanisms have to satisfy.
        p: of the l_p^p error, in [2, inf]; None for that of the factorization, or 2.
        errors: exact errors of mechanisms that satisfy it, by name, as further upper bounds.
        known: queries whose answers are public and not protected: "total", or whatever
            `workload` takes; neighbours are then "replace" and leave the answers as they are.
        options: of the norm that the bounds start from, as for `factorize`.

    Returns:
        Lower bounds, then upper bounds; those that do not hold say why.

    Raises:
        InvalidInputError: an argument out of range, or a factorization for another p or relation.
    """
    require_guarantee(guarantee)
    if errors is not None:
        instance("errors", errors, Mapping, "a mapping from names to errors")
    factorization = workload if isinstance(workload, Design) else None
    queries = workload.workload if isinstance(workload, Design) else _queries(workload)
    if known is not None:
        queries, promise = with_known(queries, guarantee, known)
        assert promise is not None
        factorization, guarantee = None, promise
    if factorization is None:
        options["neighbours"] = guarantee.neighbours
        factorization = factorize(queries, p=2.0 if p is None else p, **options)
    if factorization.strategy.sampling is not None:
        raise InvalidInputError(
            "no bounds are known on mechanisms whose steps draw their records at random; leave"
            " rate out: how often a person takes part at most is such as 63,every=16"
        )
    if p is not None and exponent(p) != factorization.p:
        raise InvalidInputError(
            f"p must be that of the factorization, {factorization.p:g}, got {p:g}; factorize for p"
        )
    if factorization.neighbours is not guarantee.neighbours:
        raise InvalidInputError(
            f"the guarantee is for neighbours {guarantee.neighbours.value!r}, the factorization "
            f"for {factorization.neighbours.value!r}; use `neighbours="
            f"{guarantee.neighbours.value!r}`"
        )
    listed = all_bounds(
        factorization.workload,
        norm_lower=factorization.certificate.lower,
        norm_upper=factorization.certificate.upper,
        p=factorization.p,
        guarantee=guarantee,
        errors=errors,
        norm_alone=factorization.strategy.participation is not None
        or bool(guarantee.public_answers),
    )
    return Bounds(listed)


@named_arguments
def verify(
    path: str | Path,
    *,
    workload: WorkloadLike | None = None,
    weights: ArrayLike | None = None,
    schema: SchemaLike | None = None,
) -> Verification:
    """Check every number that a file claims, by code that shares nothing with the solvers.

    Args:
        path: a strategy file of `write` or `pmldesign optimize` (.npz), measurements of
            `pmldesign release` (.npz), the manifest of a release (.json) or its table (.csv,
            .parquet), the certificate of `pmldesign envelope` (.json), or the state of `pmldesign
            stream`.
        workload: the queries of the strategy: a name, a file, a matrix or a Workload; None for the
            workload that the file names.
        weights: one for each query, or one number, of a strategy that was made with weights.
        schema: of people: a path, a dictionary, or a `Schema`, if the file names its attributes. A
            release is checked to be of this schema.

    Returns:
        A verdict for every claim; `holds` says whether all were checked and hold.

    Raises:
        FileError: missing, unreadable, or of another kind.
        InvalidInputError: python-flint is not installed, the workload or the schema is invalid, or
            the weights are not for the workload.
    """
    form = schema_of(workload) if schema is None else as_schema(schema)
    if form is None:
        return verify_against(path, workload=workload, weights=weights)

    def parse(name: str) -> Workload:
        return parse_queries(name, form).workload

    asked = _queries(workload, schema=form) if isinstance(workload, str) else workload
    return verify_against(path, workload=asked, weights=weights, parse=parse, schema=form.digest)


Readable: TypeAlias = Workload | Strategy | Measurements | Schema | Ledger
"""The contents of files."""


def read(path: str | Path, *more: str | Path, schema: SchemaLike | None = None) -> Readable:
    """The contents of a file, whose kind follows from them.

    Args:
        path: a matrix (.npy, .npz, .csv, .mtx), which becomes a `Workload`; a strategy file (.npz),
            a `Strategy` with the guarantee that it was made for; measurements of a release (.npz),
            `Measurements`; a schema (.json), a `Schema`; or a ledger, a `Ledger`.
        more: further measurements of the same people, combined with those of the first file.
        schema: that of the release, for measurements.

    Raises:
        FileError: missing, unreadable, damaged, or of another kind.
        InvalidInputError: several files that are not measurements, or that do not fit together.
    """
    kind = kind_of(path)
    if more or kind == "measurements":
        return read_measurements(path, *more, schema=schema)
    if kind == "strategy":
        return read_strategy(path)
    if kind == Kind.LEDGER:
        return Ledger(path)
    return read_schema(path) if kind == "json" else read_workload(path)


Writable: TypeAlias = Workload | Design | Mechanism | Optimized | Measurements | Answers | Release
"""Objects that have a file format."""


def write(path: str | Path, value: Writable, *, mechanism: Mechanism | None = None) -> None:
    """Write an object to a file, from which `read` makes it again.

    Args:
        path: .npz for a strategy or measurements; .npy, .npz, .csv or .mtx for a workload; .csv or
            .parquet for the table of a release or of answers.
        value: what to write; `Optimized` is the strategy of the best mechanism, with its noise, and
            with the certificate if it is the strategy of least norm.
        mechanism: for a `Design`, the noise that is to be written with it.

    Raises:
        FileError: another extension, or the file cannot be written.
        InvalidInputError: no such object, or it is too large to be materialized.
    """
    if isinstance(value, Optimized):
        write_strategy(path, value.stored, mechanism=value.best)
    elif isinstance(value, Workload):
        write_workload(path, value)
    elif isinstance(value, Measurements | Answers | Release):
        value.save(path)
    else:
        kinds = (
            "a workload, a design, a mechanism, what optimize returns, measurements or a release"
        )
        instance("value", value, Design | Mechanism, kinds)
        write_strategy(path, value, mechanism=mechanism)
