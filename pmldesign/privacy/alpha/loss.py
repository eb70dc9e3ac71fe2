"""The loss of noise on R x under PML, as a function of its scale.

It depends on the distances of the columns of R, over the probabilities that cells have at least. Of
a strategy with structure and more than WRITTEN_CELLS cells these are those of a profile
(`DistanceProfile`), never below the exact loss, and every alpha_j counts as the smallest one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix
from pmldesign.privacy.alpha.ball import least_masses
from pmldesign.privacy.gaussian_leakage import (
    distinct_columns,
    envelope_from_distances,
    slack_from_distances,
)
from pmldesign.privacy.guarantees import PMLGuarantee
from pmldesign.privacy.laplace_leakage import laplace_leakage_from_distances
from pmldesign.privacy.neighbours import Measurable, Norm, is_measured, scaled_distances
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import size
from pmldesign_solvers.operators.operator import Array


def leakage_at(
    strategy: Measurable | ArrayLike, guarantee: PMLGuarantee, *, noise: Noise | str, scale: float
) -> float:
    """The loss of noise of a scale under PML, rounded up: of Laplace noise an epsilon.

    Of Gaussian noise it is a delta, at the epsilon of the guarantee.
    """
    measured = strategy if is_measured(strategy) else finite_matrix("strategy", strategy)
    loss, _, diameter, exponent = pml_loss(measured, guarantee, Noise(noise))
    return loss(math.ldexp(scale, -exponent)) if diameter > 0 else 0.0


def pml_loss(
    strategy: Measurable | Array, guarantee: PMLGuarantee, noise: Noise
) -> tuple[Callable[[float], float], float, float, int]:
    """The loss under PML as a function of the scale, its target, the diameter of R, and e.

    Scales and distances are over 2^e, which makes the distances about 1. With Gaussian noise
    epsilon-PML has a loss only without noise, where all noise is alike.
    """
    epsilon = guarantee.epsilon
    norm: Norm = "l1" if noise is Noise.LAPLACE or guarantee.delta == 0 else "l2"
    repeats = 1.0
    smallest = guarantee.least_probability(strategy.shape[1])
    profile = strategy.distance_profile(norm) if is_measured(strategy) else None
    if profile is None:
        given = strategy.matrix if is_measured(strategy) else strategy
        matrix = finite_matrix("strategy", given)
        units, labels, cell_of = 0.0, None, None
        if is_measured(strategy):
            units, labels = strategy.entry_units, strategy.column_labels()
        if norm == "l2":
            matrix, cell_of = distinct_columns(matrix, labels)
            labels = np.arange(matrix.shape[1])
        distances, exponent = scaled_distances(matrix, norm=norm, entry_units=units, labels=labels)
        least = least_masses(guarantee.alpha, distances, cell_of)
    else:
        distances, least = profile.row(smallest)
        exponent, repeats = size(float(distances.max())), profile.columns
        distances = np.ldexp(distances, -exponent)
    diameter = float(distances.max())
    if norm == "l1":
        return (
            partial(laplace_leakage_from_distances, distances, least),
            epsilon,
            diameter,
            exponent,
        )
    if guarantee.failure == "slack":
        loss = partial(slack_from_distances, distances, least, epsilon=epsilon)
    else:
        loss = partial(envelope_from_distances, distances, least, epsilon=epsilon, repeats=repeats)
    return loss, guarantee.delta, diameter, exponent
