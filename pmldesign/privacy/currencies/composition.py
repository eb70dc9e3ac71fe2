"""What several releases satisfy together, the choice of each free to depend on those before.

Gaussian noise composes into Gaussian noise: with ratios t_1, t_2, ... of sensitivity over scale all
releases together are exactly those of t^2 = t_1^2 + t_2^2 + ... . Releases with Laplace noise are
dominated by one of t = t_1 + t_2 + ... (`curves`). Neighbours differ in the same way in all.

References:
    Dong, Roth and Su (2022), Gaussian differential privacy, Corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.currencies.curves import PrivacyCurve
from pmldesign.privacy.outward import float_above


def composed(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """The curve of all releases together, rounded up.

    Args:
        curves: of the releases, `Mechanism.privacy`, at least one, all of one noise.

    Raises:
        InvalidInputError: none, or both kinds of noise.
    """
    if not curves:
        raise InvalidInputError("there is nothing to compose; give at least one release")
    if len({curve.noise for curve in curves}) > 1:
        raise InvalidInputError(
            "releases with Gaussian and with Laplace noise have no closed form together; compose "
            "each kind, or give dp_event() of all to dp-accounting"
        )
    noise = curves[0].noise
    ratios = [curve.ratio for curve in curves]
    if math.isinf(max(ratios)):
        return PrivacyCurve(noise, math.inf)
    if not curves[0].gaussian:
        return PrivacyCurve(noise, float_above("the sum", sum(map(Fraction, ratios), Fraction(0))))
    square = sum((Fraction(ratio) ** 2 for ratio in ratios), Fraction(0))
    ratio = math.sqrt(square)
    while Fraction(ratio) ** 2 < square:
        ratio = math.nextafter(ratio, math.inf)
    return PrivacyCurve(noise, ratio)
