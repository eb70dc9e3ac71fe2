"""The manifest: the facts that readers of a published table may and must have, without any data.

It has the guarantee, the noise, the sensitivity as an exact fraction, and hashes of the terms that
were agreed beforehand. It never contains the number of records under add-remove, times, errors, the
path of a computation, or anything else that depends on the data.
"""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np

from pmldesign._version import FORMAT, version
from pmldesign.mechanisms.integers import Image
from pmldesign.mechanisms.lattice import SENSITIVITY_ROUNDING, Lattice
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.loss import fallback_of
from pmldesign.privacy.neighbours import pairwise_distances
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.priors import OnPriors
from pmldesign.releases.noise import ExactNoise
from pmldesign.releases.people.schema import Schema
from pmldesign.releases.sampler import library_version
from pmldesign.strategies.participation.persons import PersonRows
from pmldesign.verifier.report import KEY, OBJECT, digest_of_object
from pmldesign.workloads import Workload
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.ranges import asks_counts
from pmldesign.workloads.terms.over import as_terms
from pmldesign_solvers.operators.operator import Array

DISTANCES = {
    Noise.GAUSSIAN: "the squared l2 norm, in squared units",
    Noise.LAPLACE: "the l1 norm, in units",
    Noise.CUBE: "the l_inf norm, in units",
}
"""What the sensitivity of each noise is of."""
PROBES = 3
"""Random whole vectors whose images are hashed; another map shows in each of them."""
LISTED_CELLS = 256
"""Up to which a manifest under PML lists all distances: 600 kB."""

KEPT = "intervals cover counts of the rows that were kept of each person, not of all rows"


def manifest_of(
    noise: ExactNoise,
    *,
    schema: Schema | None,
    level: float,
    simultaneous: bool,
    post_processing: list[str],
) -> dict[str, Any]:
    """The manifest of a table, ready for JSON."""
    mechanism = noise.mechanism
    m, n = mechanism.workload.shape
    return {
        "format": FORMAT,
        "pmldesign": version("pmldesign"),
        "workload": mechanism.workload.name,
        "queries": m,
        "cells": n,
        "guarantee": promise_of(noise.guarantee, n, noise.lattice.rows),
        "noise": {
            "law": f"discrete {mechanism.noise.value}",
            "parameter": noise.scale,
            "sigma": noise.continuous if mechanism.noise is Noise.GAUSSIAN else None,
            "measurements": int(noise.lattice.units.size),
            "sampler": library_version(),
        },
        "lattice": {
            "bits": noise.bits,
            "unit": float(noise.lattice.units.max()),
            "sensitivity": str(Fraction(noise.sensitivity)),
            "of": DISTANCES[mechanism.noise],
            "exact": noise.exact,
            "bias_of_an_entry": noise.lattice.bias,
            "denominator": noise.denominator,
        },
        **_of_pml(noise),
        "intervals": {
            "level": level,
            "simultaneous": simultaneous,
            **({"cover": KEPT} if schema is not None and schema.person else {}),
        },
        "post_processing": post_processing,
        "sha256": {
            "strategy": _strategy_digest(noise.lattice, n),
            "workload": workload_digest(mechanism.workload, n),
            "schema": None if schema is None else schema.digest,
        },
    }


def _of_pml(noise: ExactNoise) -> dict[str, Any]:
    """The distances behind the loss under PML, and the guarantee for wrong alpha; empty under DP.

    Distances are in units, rounded upwards: those of each cell from the ones after it, or of any
    cell from all others, with how many there are.
    """
    guarantee, lattice, kind = noise.guarantee, noise.lattice, noise.mechanism.noise
    if not isinstance(guarantee, OnPriors):
        return {}
    norm = kind.norm
    measured, cells = lattice.measured, lattice.measured.cells
    up = (1 + SENSITIVITY_ROUNDING) * (1 + lattice.distortion) / float(lattice.units.min())
    wrong = fallback_of(measured, guarantee, kind, noise.continuous / up)
    content: dict[str, Any] = {"if_alpha_is_wrong": wrong.to_json()}
    profile = measured.distance_profile(norm)
    if profile is not None:
        counts = [round(profile.copies * count) for count in (1, *profile.counts)]
        distances = _numbers(np.append(0.0, profile.distances) * up)
        row = {"from_any": distances, "cells": counts, "different": round(profile.columns)}
        return content | {"distances": {"norm": norm, **row}}
    if cells > LISTED_CELLS:
        return content
    apart = pairwise_distances(measured.matrix, norm=norm) * up
    rows = [_numbers(apart[cell, cell + 1 :]) for cell in range(cells - 1)]
    return content | {"distances": {"norm": norm, "to_later_cells": rows}}


def _numbers(values: Array) -> str:
    return " ".join(repr(value) for value in values.tolist())


def not_private(content: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a table whose noise comes from another sampler."""
    guarantee = {**content["guarantee"], "words": "none: the noise is not private"}
    noise = {**content["noise"], "sampler": "not private: for tests"}
    return {**content, "guarantee": guarantee, "noise": noise}


def promise_of(guarantee: Guarantee, cells: int, rows: PersonRows | None) -> dict[str, Any]:
    """The guarantee in numbers and words, which define a record if a person has several."""
    numbers = {key: getattr(guarantee, key) for key in guarantee.__dataclass_fields__}
    if not guarantee.published:
        numbers.pop("published", None)
    if "sample" in guarantee.to_json():
        numbers["sample"] = guarantee.to_json()["sample"]
    words = guarantee.describe(cells) + ("" if rows is None else rows.sentence)
    about = {"kind": type(guarantee).__name__, "neighbours": guarantee.neighbours.value}
    return {**numbers, **about, "participation": rows and str(rows), "words": words}


def as_text(content: dict[str, Any]) -> str:
    """The manifest as JSON, with its digest."""
    hashes = {**content[KEY], OBJECT: digest_of_object(content)}
    return json.dumps({**content, KEY: hashes}, indent=2, allow_nan=False) + "\n"


def _strategy_digest(lattice: Lattice, cells: int) -> str:
    if cells <= MAX_PRODUCT_CELLS or lattice.tables is None:
        return _image_digest(lattice.image, cells)
    sizes, subsets, of_tables = lattice.tables
    digest = hashlib.sha256(f"{sizes} {subsets}".encode())
    draw_counts = np.random.default_rng(0)
    shapes = [math.prod(sizes[i] for i in subset) for subset in subsets]
    tables = [draw_counts.integers(0, 2**10, count) for count in shapes]
    digest.update(",".join(f"{float(v):.9e}" for v in of_tables(tables)).encode())
    return digest.hexdigest()


def workload_digest(workload: Workload, cells: int) -> str:
    """SHA-256 of the queries, identified by their answers on fixed histograms."""
    queries = workload.whole
    if cells <= MAX_PRODUCT_CELLS:
        return _image_digest(workload.matvec, cells)
    tables = as_terms(queries)
    digest = hashlib.sha256(f"{tables.domain} {tables.kinds} {tables.weights.tolist()}".encode())
    for group, ways in sorted(tables.ways.items()):
        for asked in ways:
            image = "" if asks_counts(asked) else _image_digest(asked.matvec, asked.shape[1])
            digest.update(f"{group} {image}".encode())
    return digest.hexdigest()


def _image_digest(image: Image, cells: int) -> str:
    """SHA-256 of the images of fixed vectors of whole numbers."""
    vectors = np.random.default_rng(0).integers(0, 2**10, (PROBES, cells))
    digest = hashlib.sha256(f"{cells}".encode())
    for vector in vectors:
        whole = image(vector)
        digest.update(",".join(f"{float(v):.9e}" for v in whole).encode())
    return digest.hexdigest()
