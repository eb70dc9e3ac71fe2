r"""A coarser version of measurements: the difference of the noise is added.

Partners have y = Z x + eta with discrete Gaussian noise of parameter s; published is y + eta' with
eta' of parameter s', s'^2 = t^2 - s^2. What is published is a function of y and of noise that
depends on nothing, so that both together cost what y alone costs. By itself it is discrete Gaussian
noise of parameter t around Z x: where 1/(1/s^2 + 1/s'^2) >= 4, the sum of both is within
e^(+-2 kappa) of it, kappa as in `noise.exact` [Peikert, Theorem 3.1], which the sensitivity covers.

References:
    Peikert (2010), An efficient and parallel Gaussian sampler for lattices.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale
from pmldesign.privacy.calibration import gaussian_scale
from pmldesign.privacy.guarantees import ApproxDP, CurrencyGuarantee, Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import root_above
from pmldesign.release.estimates import estimated
from pmldesign.release.manifest import promise_of
from pmldesign.release.noise.exact import SMOOTHING, gaussian_parameter
from pmldesign.release.noise.sampler import Sampler, draw
from pmldesign.release.tables import decimals_for
from pmldesign.strategies.participation.persons import as_person_rows
from pmldesign.strategies.whole.lattice import SENSITIVITY_ROUNDING

if TYPE_CHECKING:
    from pmldesign.release.measured.measurements import Measurements

EXACT = 2.0**50
"""Whole numbers below are told from their products with a unit."""


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
    spreads = found.noise_of(queries).deviations  # digits too are of the new values alone
    estimate = estimated(found.strategy, values, queries, found.public)
    return replace(found, decimals=decimals_for(estimate.summed, spreads, estimate.size))
