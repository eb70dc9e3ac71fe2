"""The public functions that read whatever they are given before they call the room that knows.

`pmldesign.workload`, `strategy`, `calibrate` and `bounds`. The others, which take the same,
are in their rooms: `factorize` and `optimize` in `designs`, `mechanism` and `leakage` in
`mechanisms`, `compare` in `comparison`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmldesign.arguments import exponent, instance
from pmldesign.designs.dispatch import factorize
from pmldesign.designs.options import takes_options
from pmldesign.designs.results import Design
from pmldesign.error_bounds import Bound, all_bounds
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import with_known
from pmldesign.files import load_workload, read_strategy, read_workload
from pmldesign.files.verification import verify_file as verify_against
from pmldesign.files.workloads import is_matrix_path
from pmldesign.privacy.calibration import Calibration
from pmldesign.privacy.calibration import calibrate as calibrate_strategy
from pmldesign.privacy.guarantees import Guarantee, require_guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.releases.people.queries import parse_queries
from pmldesign.releases.people.schema import as_schema
from pmldesign.strategies import Strategy, as_strategy
from pmldesign.strategies.participation.schema import AnyParticipation, as_participation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.verifier import Verification
from pmldesign.workloads import Workload, as_workload
from pmldesign.workloads.beside import as_public
from pmldesign.workloads.weighting import weighted as weigh


def workload(value: Any, *, schema: Any = None) -> Workload:
    """The queries to answer.

    Args:
        value: a name such as "prefix:64" (names are joined by * for products and by + for unions),
            a file (.npy, .npz, .csv or .mtx), a matrix of shape (m, n) with a row for each query
            and a column for each cell, dense or sparse, a data frame of that form, or a Workload.
        schema: of people: a path, a dictionary, or a `Schema`. A text then names its attributes, as
            "sex*age + region" or "age:prefix".

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: the contents are not a workload, or the name is not known.
    """
    if schema is not None and isinstance(value, str) and not is_matrix_path(value):
        return parse_queries(value, as_schema(schema)).workload
    if isinstance(value, Path):
        return read_workload(value)
    return load_workload(value) if isinstance(value, str) else as_workload(value)


_queries = workload
"""The function, where an argument has its name."""


def strategy(value: Any, workload: Any = None) -> Strategy:
    """What is to be measured.

    Args:
        value: a file of `pmldesign optimize` or `write_strategy` (.npz), any other matrix file, the
            name of a baseline ("tree") for the workload that is given, a matrix of shape (r, n)
            with a row for each measurement, or whatever has a strategy.
        workload: what is to be answered; without one a name is that of a workload, whose own
            queries are measured.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: the contents are no strategy, or the name is not known.
    """
    if isinstance(value, Path) or (isinstance(value, str) and is_matrix_path(value)):
        return read_strategy(value)
    return as_strategy(value, None if workload is None else as_workload(workload))


def weighted(workload: Any, weights: Any) -> Workload:
    """The queries of a workload, each times its weight, with the structure that they had.

    Args:
        workload: A, shape (m, n), whatever `workload` takes.
        weights: positive, shape (m,), or one number for all queries: what the error of each counts.

    Returns:
        diag(weights) A. Errors of mechanisms on it count the weights; `Mechanism.unweighted` has
        those without.

    Raises:
        FileError, InvalidInputError: as `workload`; or weights that do not fit or are not positive.
    """
    return weigh(_queries(workload), weights)


def calibrate(
    strategy: Any,
    guarantee: Guarantee,
    *,
    noise: Noise | str,
    participation: AnyParticipation | str | None = None,
    known: Any = None,
    allow_vacuous: bool = False,
) -> Calibration:
    """Smallest scale of the noise on R x that meets the guarantee.

    Args:
        strategy: R, whatever `strategy` takes: a matrix, a Strategy, a factorization, the name of a
            workload whose own queries are measured.
        guarantee: what is to be met.
        noise: "gaussian" or "laplace".
        participation: how often a person takes part in the steps of a stream, such as
            "16,every=64"; None for what the strategy was made for, or once.
        known: queries whose answers are public and not protected: "total", or whatever
            `workload` takes; neighbours are then "replace" and leave the answers as they are.
        allow_vacuous: accept a guarantee that needs no noise at all, and return scale 0.

    Raises:
        InvalidInputError: an argument out of range, or alpha not fit for the number of cells.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: R x itself satisfies the guarantee, which protects nobody.
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
    workload: Any,
    *,
    guarantee: Guarantee,
    p: float | None = None,
    errors: Mapping[str, float] | None = None,
    known: Any = None,
    **options: Any,
) -> tuple[Bound, ...]:
    """Every known bound on the error of mechanisms that meet a guarantee.

    Args:
        workload: what `workload` takes, or a factorization of it, which saves the solver's work.
        guarantee: what the mechanisms have to satisfy.
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
    if known is not None:
        given = _queries(workload) if factorization is None else factorization.workload
        workload, promise = with_known(given, guarantee, known)
        assert promise is not None
        factorization, guarantee = None, promise
    if factorization is None:
        options["neighbours"] = guarantee.neighbours
        factorization = factorize(workload, p=2.0 if p is None else p, **options)
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
            f"for {factorization.neighbours.value!r}; factorize with neighbours="
            f"{guarantee.neighbours.value!r}"
        )
    return all_bounds(
        factorization.workload,
        norm_lower=factorization.certificate.lower,
        norm_upper=factorization.certificate.upper,
        p=factorization.p,
        guarantee=guarantee,
        errors=errors,
        norm_alone=factorization.strategy.participation is not None
        or bool(guarantee.public_answers),
    )


def verify(
    path: str | Path, *, workload: Any = None, weights: Any = None, schema: Any = None
) -> Verification:
    """Check every number that a file claims, by code that shares nothing with the solvers.

    Args:
        path: a strategy file of `write_strategy` or `pmldesign optimize` (.npz), measurements of
            `pmldesign release` (.npz), the manifest of a release (.json) or its table (.csv,
            .parquet), the certificate of `pmldesign envelope` (.json), or the state of `pmldesign
            stream`.
        workload: what the strategy answers: a name, a file, a matrix or a Workload; None for the
            workload that the file names.
        weights: one for each query, or one number, of a strategy that was made with weights.
        schema: of people: a path, a dictionary, or a `Schema`, if the file names its attributes. A
            release is checked to be of this schema.

    Returns:
        A verdict for every claim; `holds` says whether all were checked and hold.

    Raises:
        FileError: missing, unreadable, or of another kind.
        InvalidInputError: python-flint is not installed, the workload or the schema is none, or the
            weights are not for the workload.
    """
    if schema is None:
        return verify_against(path, workload=workload, weights=weights)
    form = as_schema(schema)

    def parse(name: str) -> Workload:
        return parse_queries(name, form).workload

    asked = _queries(workload, schema=form) if isinstance(workload, str) else workload
    return verify_against(path, workload=asked, weights=weights, parse=parse, schema=form.digest)
