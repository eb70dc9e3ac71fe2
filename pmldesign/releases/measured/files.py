"""Files of measurements: a strategy file of the measurements, with their noisy values.

The header of the strategy has four more entries, and the arrays three more:

    manifest    of the release: the guarantee, the noise, the lattice, hashes (`release.manifest`)
    decimals    digits after the point of the estimates that were published
    release     a random text that all versions of a release have
    own_grid    whether the noise is on the grid of whole measurements
    measured    y, without the part that is public
    units       of the lattice, one number for equal ones
    records     of each group of cells, if their numbers are public

All of it may be published. Reading checks the form; `pmldesign verify` checks the claims.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.errors import FileError, InvalidInputError, PmldesignError
from pmldesign.factorization import Factorization
from pmldesign.files.arrays import Archive, file_name, reason, whole_numbers
from pmldesign.files.atomic import PathName, as_path, check_writable
from pmldesign.files.parts import shortened
from pmldesign.files.strategies import read_held, strategy_content, write_content
from pmldesign.files.workloads import opened
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.releases.manifest import workload_digest
from pmldesign.releases.measured.measurements import Measurements
from pmldesign.releases.measured.several import combined
from pmldesign.releases.noise import NoiseLaw
from pmldesign.releases.people.queries import parse_queries
from pmldesign.releases.people.schema import Schema, as_schema
from pmldesign.releases.public_counts import PublicCounts, groups_of
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import as_participation
from pmldesign.verifier.report import KEY, digest_of
from pmldesign.workloads import Workload, parse_workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.public import RECORDS, Public


def write_measurements(path: PathName, measured: Measurements) -> None:
    """Write the measurements of one release; errors as `Measurements.write`."""
    check_writable(path, "a file of measurements", ".npz")
    if measured.queries is None or measured.decimals is None:
        raise InvalidInputError("measurements of several releases are files of their own already")
    (law,), asked = measured.laws, given_invariants(measured.queries, measured.strategy.public)
    known = Factorization(asked, measured.strategy, measured.neighbours)
    header, arrays = strategy_content(Mechanism(known, law.kind, 1.0, 1.0, None))
    header |= {"manifest": dict(measured.manifests[0]), "decimals": measured.decimals}
    header |= {"own_grid": law.own_grid, "release": measured.identity}
    arrays |= {"measured": measured.values, "units": shortened(law.units)}
    if measured.public is not None:
        arrays["records"] = np.array(measured.public.counts, dtype=np.int64)
    write_content(path, header, arrays)


def read_measurements(*paths: PathName, schema: Any = None) -> Measurements:
    """The measurements in files of `pmldesign release --measurements`, combined.

    Args:
        paths: one file, or several of the same people.
        schema: of the release, a path or a dictionary; without it the queries that were released
            are known by name only if they need no schema.

    Raises:
        FileError: a file is missing, damaged, or holds no measurements.
        InvalidInputError: no files, or they do not fit together.
    """
    form = None if schema is None else as_schema(schema)
    return combined([_read(as_path(path), form) for path in paths], form)


def _read(path: Path, schema: Schema | None) -> Measurements:
    name = file_name(path)
    if path.suffix.lower() != ".npz":
        raise FileError(
            f"{name}: it is not a file of measurements, which `pmldesign release --measurements"
            " FILE.npz` writes"
        )
    strategy, header = read_held(path)
    if "manifest" not in header:
        raise FileError(
            f"{name} holds no measurements; `pmldesign release --measurements` writes them"
        )
    with opened(path) as handle:
        try:
            arrays = Archive(handle)
            _check(header, {key: arrays[key] for key in arrays.names if key != "header"})
            return _measurements(strategy, header, arrays, schema)
        except PmldesignError:
            raise
        except Exception as error:  # a damaged file may hold anything
            raise FileError(
                f"{name} is damaged or holds no measurements: {reason(error)}"
            ) from None


def _check(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Refuse a file that was changed, or whose manifest lacks what answers need."""
    if header[KEY] != digest_of(header, arrays):
        raise ValueError("it was changed after it was written")
    manifest = header["manifest"]
    promise, noise = manifest["guarantee"], manifest["noise"]
    Neighbours(promise["neighbours"])
    counts = [manifest["cells"], noise["measurements"]]
    as_participation(promise["participation"])
    level, distance = manifest["intervals"]["level"], Fraction(manifest["lattice"]["sensitivity"])
    told = isinstance(promise["words"] + header["workload"], str) and manifest["sha256"]["schema"]
    sound = all(type(count) is int and count > 0 for count in counts) and 0 < level < 1
    sound = sound and distance > 0 and isinstance(told, str | None)
    if noise["law"] == f"discrete {Noise.GAUSSIAN.value}":
        sound = sound and Fraction(noise["sigma"]) > 0
    if not sound:
        raise ValueError("its manifest is none")


def _measurements(
    strategy: Strategy, header: dict[str, Any], arrays: Archive, schema: Schema | None
) -> Measurements:
    manifest, decimals = header["manifest"], header["decimals"]
    law, scale = manifest["noise"]["law"].split(" ")[1], float(manifest["noise"]["parameter"])
    if manifest["guarantee"]["neighbours"] == Neighbours.REPLACE and not strategy.public:
        if "strategy" in arrays:
            strategy.public = RECORDS
        else:
            strategy = strategy.beside(RECORDS)
    values, units = arrays["measured"], arrays["units"]
    fits = values.shape == strategy.shape[:1] and values.dtype == units.dtype == np.float64
    if not (fits and np.isfinite(values).all() and (units > 0).all() and 0 < scale < np.inf):
        raise ValueError("its measurements do not fit its strategy")
    if type(decimals) is not int or not 0 <= decimals <= 12:
        raise ValueError("its decimals are none")
    units = np.array(np.broadcast_to(units, values.shape))
    public = None
    if strategy.public:
        counts = whole_numbers("records", arrays["records"])
        groups, shares = groups_of(strategy.public)
        public = PublicCounts(groups, tuple(counts), shares)
        if len(counts) != len(public.groups) or min(counts) < 0:
            raise ValueError("its numbers of records are none")
    noise = NoiseLaw(Noise(law), scale, units, bool(header["own_grid"]))
    queries = _queries(header, manifest, schema, strategy.public)
    kept = queries, decimals, str(header["release"])
    form = schema if schema is not None and schema.digest == manifest["sha256"]["schema"] else None
    return Measurements(strategy, values, (noise,), public, (manifest,), *kept, form)


def _queries(
    header: dict[str, Any], manifest: dict[str, Any], schema: Schema | None, public: Public
) -> Workload | None:
    """The queries that were released, if their name determines them."""
    hashes, name = manifest["sha256"], str(header["workload"])
    if schema is not None and schema.digest != hashes["schema"]:
        return None
    try:
        found = parse_workload(name) if schema is None else parse_queries(name, schema).workload
    except InvalidInputError:
        return None
    if found.shape[1] != header["cells"]:
        return None
    found = found.unweighted or found
    digest = workload_digest(given_invariants(found, public), found.shape[1])
    return found if digest == hashes["workload"] else None
