"""What several mechanisms satisfy together (`privacy.currencies.composition`)."""

from __future__ import annotations

from collections.abc import Sequence

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.exact_error import Mechanism
from pmldesign.privacy.currencies.composition import composed
from pmldesign.privacy.currencies.curves import PrivacyCurve
from pmldesign.privacy.currencies.mixed import MixedCurve


def compose(
    releases: Sequence[Mechanism | PrivacyCurve | MixedCurve],
) -> PrivacyCurve | MixedCurve:
    """What several releases satisfy together: of Gaussian noise exactly those of one.

    Args:
        releases: mechanisms for one relation of neighbours, or their `privacy`.

    Returns:
        The curve of all together, rounded up: `.mu`, `.rho`, `.epsilon(delta)` and so on; with both
        kinds of noise a `MixedCurve`, which has the same.

    Raises:
        InvalidInputError: none, or different neighbours or known answers.
    """
    mechanisms = [release for release in releases if isinstance(release, Mechanism)]
    if len({release.neighbours for release in mechanisms}) > 1:
        raise InvalidInputError(
            "the releases have different neighbours; calibrate all for add-remove or for replace"
        )
    if len({release.strategy.known for release in mechanisms}) > 1:
        raise InvalidInputError(
            "the releases have different known answers, so that their neighbours differ; give all"
            " the same known answers"
        )
    return composed(
        [release.privacy if isinstance(release, Mechanism) else release for release in releases]
    )
