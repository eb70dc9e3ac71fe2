"""What a mechanism satisfies in every currency of privacy, whatever it was calibrated to."""

from __future__ import annotations

import contextlib
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options.alpha import AT_ALPHA
from pmldesign.designs.targets.budgets import least_leakage
from pmldesign.errors import VacuousGuaranteeError
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.currencies.curves import DELTAS, PrivacyCurve
from pmldesign.privacy.digits import at_least, shortest
from pmldesign.privacy.guarantees import PML, EnvelopePML, Guarantee, PMLGuarantee
from pmldesign.privacy.noise import Noise


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
    leaked, wrong = leakage_at_alpha(mechanism), mechanism.fallback
    if leaked is not None:
        lines.append(("leakage", _in_words(leaked)))
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


def guarantee_json(guarantee: Guarantee | None, cells: int) -> dict[str, Any]:
    """What is promised, in words and as numbers; None where nothing is."""
    return {
        "guarantee": guarantee and guarantee.describe(cells),
        "guarantee_numbers": guarantee and guarantee.to_json(),
    }


def fallback_json(mechanism: Mechanism) -> dict[str, Any] | None:
    """What is left if alpha is wrong; None where nothing is assumed."""
    return mechanism.fallback.to_json() if mechanism.fallback else None


def privacy_json(mechanism: Mechanism) -> dict[str, Any] | None:
    """The numbers; None without a guarantee or without noise."""
    curve = mechanism.privacy
    if mechanism.guarantee is None or math.isinf(curve.ratio):
        return None
    leaked = leakage_at_alpha(mechanism)
    return curve.to_json() | ({} if leaked is None else {"leakage": leaked})


@lru_cache(maxsize=1)
def leakage_at_alpha(mechanism: Mechanism) -> dict[str, Any] | None:
    """The pointwise maximal leakage that --at-alpha asks for, rounded up; None without it.

    Epsilon is null where it is log(1/alpha), which no mechanism exceeds. Gaussian noise has it but
    for a probability delta, that of the guarantee, or 1e-6.
    """
    alpha = click.get_current_context().meta.get(AT_ALPHA)
    if alpha is None or mechanism.guarantee is None or mechanism.scale == 0:
        return None
    noise, delta = mechanism.noise, 0.0
    promise: PMLGuarantee = PML(1.0, alpha)
    if noise is Noise.GAUSSIAN:
        delta = mechanism.guarantee.delta or DELTAS[1]
        promise = EnvelopePML(1.0, delta, alpha)
    epsilon = None
    with contextlib.suppress(VacuousGuaranteeError):
        epsilon = least_leakage(mechanism.strategy, promise, noise, mechanism.scale)
    return {"alpha": alpha, "delta": delta or None, "epsilon": epsilon}


def _in_words(leaked: dict[str, Any]) -> str:
    """What leaks, in words."""
    alpha = leaked["alpha"]
    if leaked["epsilon"] is None:
        most = at_least(-math.log(alpha), 4)
        text = f"as much as any mechanism leaks, log(1/{shortest(alpha)}) = {most}"
    else:
        text = f"epsilon {at_least(leaked['epsilon'], 4)} (PML)"
    but = (
        "" if leaked["delta"] is None else f", but for a probability of {shortest(leaked['delta'])}"
    )
    return f"if every cell has probability {shortest(alpha)} or more: {text}{but}"


def draw_privacy(mechanism: Mechanism, path: Path | None) -> None:
    """Write the picture that --plot asks for."""
    if path is None:
        return
    from pmldesign.plots import privacy_figure, save

    save(privacy_figure({mechanism.strategy.name: mechanism.privacy}), path)
