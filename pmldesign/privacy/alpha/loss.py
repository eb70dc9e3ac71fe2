"""The loss of noise on R x under PML, as a function of its scale.

It depends on the distances of the columns of R, over the probabilities that cells have at least. Of
a strategy with structure and more than WRITTEN_CELLS cells these are those of a profile
(`DistanceProfile`), never below the exact loss, and every alpha_j counts as the smallest one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix
from pmldesign.privacy.alpha.ball import least_masses
from pmldesign.privacy.gaussian_leakage import envelope_from_distances, slack_from_distances
from pmldesign.privacy.guarantees import PMLGuarantee
from pmldesign.privacy.laplace_leakage import laplace_leakage_from_distances
from pmldesign.privacy.neighbours import (
    Measurable,
    Norm,
    distances_between,
    is_measured,
)
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import size
from pmldesign_solvers.operators.operator import Array

ROUGH = 32
"""With many more columns than this, so many of them tell about how much noise is needed."""


@dataclass(frozen=True, slots=True, eq=False)
class PMLLoss:
    """The loss under PML as a function of the scale; scales and distances are over 2^exponent.

    Attributes:
        bound: the loss from distances, least probabilities and a scale.
        distances: of all columns from all, or from some, about 1.
        least: what every column has at least, as the bound takes it.
        target: what the loss is to be at most.
        exponent: e.
    """

    bound: Callable[..., float]
    distances: Array
    least: Array
    target: float
    exponent: int

    def __call__(self, scale: float) -> float:
        """The loss at this scale, rounded upwards."""
        return self.bound(self.distances, self.least, scale)

    @property
    def diameter(self) -> float:
        """The largest distance."""
        return float(self.distances.max())

    def rough(self) -> PMLLoss | None:
        """About the same from a few columns, where there are many more: a start."""
        count = len(self.distances)
        if count < 8 * ROUGH:
            return None
        some = np.linspace(0, count - 1, ROUGH).astype(int)
        order = np.concatenate([some, np.delete(np.arange(self.distances.shape[1]), some)])
        least = self.least[order] if self.least.ndim == 1 else self.least[np.ix_(some, order)]
        bound = self.bound
        if isinstance(bound, partial) and "repeats" in bound.keywords:
            bound = partial(bound, repeats=bound.keywords["repeats"] * count / ROUGH)
        return replace(
            self, bound=bound, distances=self.distances[np.ix_(some, order)], least=least
        )


def leakage_at(
    strategy: Measurable | ArrayLike, guarantee: PMLGuarantee, *, noise: Noise | str, scale: float
) -> float:
    """The loss of noise of a scale under PML, rounded up: of Laplace noise an epsilon.

    Of Gaussian noise it is a delta, at the epsilon of the guarantee.
    """
    measured = strategy if is_measured(strategy) else finite_matrix("strategy", strategy)
    loss = pml_loss(measured, guarantee, Noise(noise))
    return loss(math.ldexp(scale, -loss.exponent)) if loss.diameter > 0 else 0.0


def pml_loss(strategy: Measurable | Array, guarantee: PMLGuarantee, noise: Noise) -> PMLLoss:
    """The loss under PML as a function of the scale.

    With Gaussian noise epsilon-PML has a loss only without noise, where all noise is alike.
    """
    epsilon = guarantee.epsilon
    norm: Norm = "l1" if noise is Noise.LAPLACE or guarantee.delta == 0 else "l2"
    repeats = 1.0
    smallest = guarantee.least_probability(strategy.shape[1])
    profile = strategy.distance_profile(norm) if is_measured(strategy) else None
    if profile is None:
        if is_measured(strategy):
            distances, cell_of, exponent = strategy.pair_distances(norm)
        else:
            distances, cell_of, exponent = distances_between(strategy, norm)
        least = least_masses(guarantee.alpha, distances, cell_of)
    else:
        distances, least = profile.row(smallest)
        exponent, repeats = size(float(distances.max())), profile.columns
        distances = np.ldexp(distances, -exponent)
    bound: Callable[..., float] = laplace_leakage_from_distances
    if norm == "l2" and guarantee.failure == "slack":
        bound = partial(slack_from_distances, epsilon=epsilon)
    elif norm == "l2":
        bound = partial(envelope_from_distances, epsilon=epsilon, repeats=repeats)
    target = epsilon if norm == "l1" else guarantee.delta
    return PMLLoss(bound, distances, least, target, exponent)
