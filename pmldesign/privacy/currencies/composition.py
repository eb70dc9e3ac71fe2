"""What several releases satisfy together, the choice of each free to depend on those before.

Gaussian noise composes into Gaussian noise: with ratios t_1, t_2, ... of sensitivity over scale all
releases together are exactly those of t^2 = t_1^2 + t_2^2 + ... . Releases with Laplace noise are
dominated by one of t = t_1 + t_2 + ... (`curves`); both kinds together: `mixed`. Neighbours differ
in the same way in all.

References:
    Dong, Roth and Su (2022), Gaussian differential privacy, Corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.currencies.curves import PrivacyCurve
from pmldesign.privacy.currencies.mixed import MixedCurve
from pmldesign.privacy.outward import float_above, root_above


def composed(curves: Sequence[PrivacyCurve | MixedCurve]) -> PrivacyCurve | MixedCurve:
    """The curve of all releases together, rounded up.

    Args:
        curves: of the releases, `Mechanism.privacy`, at least one.

    Raises:
        InvalidInputError: none.
    """
    parts = [
        part
        for curve in curves
        for part in (
            (curve.gaussian_part, curve.laplace_part) if isinstance(curve, MixedCurve) else (curve,)
        )
    ]
    if not parts:
        raise InvalidInputError("there is nothing to compose; give at least one release")
    gaussian = [part for part in parts if part.gaussian]
    laplace = [part for part in parts if not part.gaussian]
    if gaussian and laplace:
        return MixedCurve(_of_one_kind(gaussian), _of_one_kind(laplace))
    return _of_one_kind(parts)


def _of_one_kind(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """The curve of releases with one noise."""
    noise = curves[0].noise
    ratios = [curve.ratio for curve in curves]
    if math.isinf(max(ratios)):
        return PrivacyCurve(noise, math.inf)
    if not curves[0].gaussian:
        return PrivacyCurve(noise, float_above("the sum", sum(map(Fraction, ratios), Fraction(0))))
    return PrivacyCurve(
        noise, root_above(sum((Fraction(ratio) ** 2 for ratio in ratios), Fraction(0)))
    )
