"""What several mechanisms satisfy together (`privacy.currencies.composition`)."""

from __future__ import annotations

from collections.abc import Sequence

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.exact_error import Mechanism
from pmldesign.privacy.currencies.composition import composed
from pmldesign.privacy.currencies.curves import PrivacyCurve


def compose(releases: Sequence[Mechanism | PrivacyCurve]) -> PrivacyCurve:
    """What several releases satisfy together: of Gaussian noise exactly those of one.

    Args:
        releases: mechanisms with one kind of noise for one relation of neighbours, or their
            `privacy`.

    Returns:
        The curve of all together, rounded up: `.mu`, `.rho`, `.epsilon(delta)` and so on.

    Raises:
        InvalidInputError: none, both kinds of noise, or different neighbours.
    """
    mechanisms = [release for release in releases if isinstance(release, Mechanism)]
    if len({release.neighbours for release in mechanisms}) > 1:
        raise InvalidInputError(
            "the releases have different neighbours; calibrate all for add-remove or for replace"
        )
    return composed(
        [release.privacy if isinstance(release, Mechanism) else release for release in releases]
    )
