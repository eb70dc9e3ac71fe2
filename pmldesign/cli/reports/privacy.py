"""What a mechanism satisfies in every currency of privacy, whatever it was calibrated to."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.currencies.curves import DELTAS, PrivacyCurve
from pmldesign.privacy.digits import at_least, shortest
from pmldesign.privacy.guarantees import Guarantee


def privacy_facts(mechanism: Mechanism) -> list[tuple[str, str]]:
    """With numbers that are rounded up; none for noise without a guarantee.

    Under PML also what is left if alpha is wrong.
    """
    guarantee = mechanism.guarantee
    if guarantee is None or not 0 < mechanism.privacy.ratio < math.inf:
        return []
    relation = f"{mechanism.neighbours.value} neighbours"
    if guarantee.known:
        relation += f" that {guarantee.known!r} counts alike"
    lines = [("privacy", f"{relation}: {currencies(mechanism.privacy, guarantee)}")]
    wrong = mechanism.fallback
    return lines if wrong is None else [*lines, ("if wrong", wrong.describe())]


def currencies(curve: PrivacyCurve, guarantee: Guarantee) -> str:
    """What noise satisfies in every currency, in words; its own budget as it was asked for."""
    rho, mu = (getattr(guarantee, unit, None) for unit in ("rho", "mu"))
    pairs = [f"{at_least(curve.epsilon(d), 4)} at delta {shortest(d)}" for d in DELTAS]
    parts = [
        f"rho {at_least(rho or curve.rho, 4)} (zCDP)",
        f"mu {at_least(mu or curve.mu, 4)} (Gaussian DP)",
        "epsilon "
        + ", ".join(pairs if curve.gaussian else [f"{at_least(curve.pure, 4)} at delta 0"]),
    ]
    return "; ".join(parts)


def fallback_json(mechanism: Mechanism) -> dict[str, Any] | None:
    """What is left if alpha is wrong; None where nothing is assumed."""
    return mechanism.fallback.to_json() if mechanism.fallback else None


def privacy_json(mechanism: Mechanism) -> dict[str, Any] | None:
    """The numbers; None without a guarantee or without noise."""
    curve = mechanism.privacy
    if mechanism.guarantee is None or math.isinf(curve.ratio):
        return None
    return curve.to_json()


def draw_privacy(mechanism: Mechanism, path: Path | None) -> None:
    """Write the picture that --plot asks for."""
    if path is None:
        return
    from pmldesign.plots import plot_privacy

    plot_privacy({mechanism.strategy.name: mechanism.privacy}, path)
