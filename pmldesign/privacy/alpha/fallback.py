r"""What is left of a guarantee whose assumption does not hold: less alpha, or none at all.

The loss of a mechanism on Q_(c alpha) increases as the share c falls from 1 to 0, and its limit is
that of differential privacy under replace, which assumes nothing about the records:

    Laplace noise    the leakage, an epsilon; at c = 0 the largest l1 distance of columns over b
    Gaussian noise   delta at the same epsilon; at c = 0 that of (epsilon, delta)-DP

Records that are not independent are beyond all of these but the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmldesign.privacy.alpha.sample import SampledAlpha
from pmldesign.privacy.analytic_gaussian import gaussian_delta
from pmldesign.privacy.digits import at_least, shortest
from pmldesign.privacy.guarantees import PMLGuarantee
from pmldesign.privacy.neighbours import Measurable, Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import quotient_above

SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.01, 0.001, 0.0)
"""Of alpha, in a table."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The loss of a mechanism where the assumption of its guarantee is wrong, rounded upwards.

    Attributes:
        noise: of the mechanism; the losses are an epsilon for Laplace noise, a delta at
            `epsilon` for Gaussian noise.
        epsilon: of the guarantee.
        half: the loss if every alpha is half of what was assumed.
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
        """The losses, and what they are."""
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
    """The loss where alpha is a share of what the guarantee assumes, rounded upwards.

    Args:
        strategy: R.
        guarantee: what was promised.
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
    from pmldesign.privacy.alpha.loss import pml_loss

    loss = pml_loss(strategy, replace(guarantee, alpha=less), noise)
    return loss(math.ldexp(scale, -loss.exponent))
