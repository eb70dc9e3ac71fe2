r"""The loss of noise on R x under PML, as a function of its scale and of alpha.

It depends on the distances of the columns of R, over the probabilities that cells have at least. Of
a strategy with structure and more than WRITTEN_CELLS cells these are those of a profile
(`DistanceProfile`), never below the exact loss, and every alpha_j counts as the smallest one.

Where the assumption of a guarantee does not hold there may be less alpha, or none at all. The loss
on Q_(c alpha) increases as the share c falls from 1 to 0, and its limit is that of differential
privacy under replace, which assumes nothing about the records:

    Laplace noise    the leakage, an epsilon; at c = 0 the largest l1 distance of columns over b
    Gaussian noise   delta at the same epsilon; at c = 0 that of (epsilon, delta)-DP

Records that are not independent are beyond all of these but the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import finite_matrix
from pmldesign.privacy.analytic_gaussian import gaussian_delta
from pmldesign.privacy.gaussian_leakage import envelope_from_distances, slack_from_distances
from pmldesign.privacy.guarantees import PMLGuarantee
from pmldesign.privacy.laplace_leakage import laplace_leakage_from_distances
from pmldesign.privacy.neighbours import (
    Measurable,
    Neighbours,
    Norm,
    distances_between,
)
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, quotient_above, shortest, size
from pmldesign.privacy.priors import least_masses
from pmldesign.privacy.public_sample import SampledAlpha
from pmldesign_solvers.operators.operator import Array

ROUGH = 32
"""With many more columns, a sample of this many estimates the noise."""


@dataclass(frozen=True, slots=True, eq=False)
class PMLLoss:
    """The loss under PML as a function of the scale; scales and distances are over 2^exponent.

    Attributes:
        bound: the loss from distances, least probabilities and a scale.
        distances: of all columns from all, or from some, about 1.
        least: lower bounds on the probabilities of columns, in the form of the bound.
        target: upper limit of the loss.
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
        """An approximation from a few columns, if there are many more: a start."""
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
    measured = strategy if isinstance(strategy, Measurable) else finite_matrix("strategy", strategy)
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
    profile = strategy.distance_profile(norm) if isinstance(strategy, Measurable) else None
    if profile is None:
        if isinstance(strategy, Measurable):
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


SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.01, 0.001, 0.0)
"""Of alpha, in a table."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The loss of a mechanism where the assumption of its guarantee is wrong, rounded upwards.

    Attributes:
        noise: of the mechanism; the losses are an epsilon for Laplace noise, a delta at
            `epsilon` for Gaussian noise.
        epsilon: of the guarantee.
        half: the loss if every alpha is half of the assumed one.
        dp: the loss of differential privacy, one record replaced, which assumes nothing.
    """

    noise: Noise
    epsilon: float
    half: float
    dp: float

    def describe(self) -> str:
        """The loss as assumed and without the assumption, in words."""
        epsilon = shortest(self.epsilon)
        if self.noise is Noise.LAPLACE:
            half, nothing = f"e^{at_least(self.half)} times", f"{at_least(self.dp)}-DP"
        else:
            half, nothing = f"delta {at_least(self.half)}", f"({epsilon}, {at_least(self.dp)})-DP"
        return f"if alpha is half of that: {half}; if nothing of it holds: {nothing} (replace)"

    def to_json(self) -> dict[str, Any]:
        """The losses, with their kind."""
        loss = "epsilon" if self.noise is Noise.LAPLACE else "delta"
        return {"loss": loss, "half_alpha": self.half, "dp": self.dp}


def fallback_of(
    strategy: Measurable, guarantee: PMLGuarantee, noise: Noise, scale: float
) -> Fallback:
    """The losses of noise of a positive scale on R x without half, or all, of alpha."""
    half = loss_at(strategy, guarantee, noise, scale, 0.5)
    dp = dp_loss(strategy, noise, scale, guarantee.epsilon)
    return Fallback(noise, guarantee.epsilon, half, dp)


def dp_loss(strategy: Measurable, noise: Noise, scale: float, epsilon: float) -> float:
    """The epsilon (Laplace), or the delta at `epsilon` (Gaussian), of DP under replace."""
    if noise is Noise.LAPLACE:
        diameter = strategy.sensitivity_under(Neighbours.REPLACE, "l1")
        return quotient_above(diameter, scale) if diameter > 0 else 0.0
    diameter = strategy.sensitivity_under(Neighbours.REPLACE, "l2")
    return gaussian_delta(diameter, scale, epsilon)


def loss_at(
    strategy: Measurable, guarantee: PMLGuarantee, noise: Noise, scale: float, share: float
) -> float:
    """The loss if alpha is a share of the assumed one, rounded upwards.

    Args:
        strategy: R.
        guarantee: with the assumption.
        noise: Gaussian or Laplace.
        scale: of the noise, positive.
        share: in [0, 1]; 0 is differential privacy under replace, which says nothing about the
            probability of a leakage (an envelope): a delta of 1.

    Returns:
        An epsilon (Laplace) or a delta at the epsilon of the guarantee (Gaussian).
    """
    if share == 0:
        if guarantee.failure == "envelope":
            return 1.0
        return dp_loss(strategy, noise, scale, guarantee.epsilon)
    alpha: Any = guarantee.alpha
    sampled = isinstance(alpha, SampledAlpha)
    less: Any = alpha.shrunk(share) if sampled else np.multiply(share, alpha).tolist()

    loss = pml_loss(strategy, replace(guarantee, alpha=less), noise)
    return loss(math.ldexp(scale, -loss.exponent))
