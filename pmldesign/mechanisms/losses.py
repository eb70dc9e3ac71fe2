"""The pointwise maximal leakage of noise on the measurements of a strategy, in nats.

It is for any number of records whose cells have at least some probability, alpha; as alpha falls it
grows, up to differential privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pmldesign.arguments import doubles, member, non_negative, positive, real_numbers, shown
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import PML, ApproxPML, EnvelopePML, PMLGuarantee
from pmldesign.privacy.laplace_leakage import extreme_output_leakage
from pmldesign.privacy.loss import SHARES, dp_loss, leakage_at, loss_at
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy, as_strategy
from pmldesign.strategies.baselines.written_queries import in_pairs

WRITTEN = 4096
"""Up to so many cells the distances of all pairs are taken: some seconds."""
FEW_ROWS, FEW_ENTRIES = 64, 2**24
"""Larger matrices rarely have few sign patterns: they are not examined."""


def leakage(
    strategy: Any,
    *,
    scale: float,
    alpha: float | tuple[float, ...],
    noise: Noise | str = Noise.LAPLACE,
    epsilon: float | None = None,
) -> dict[str, Any]:
    """The pointwise maximal leakage of noise on the measurements of a strategy, in nats.

    Args:
        strategy: R, whatever `strategy` takes.
        scale: b of Laplace noise, or the standard deviation of Gaussian noise.
        alpha: least probability of a cell: one number for all cells, or one for each.
        noise: "laplace" or "gaussian".
        epsilon: for Gaussian noise the leakage whose delta is asked for.

    Returns:
        The arguments, and for Laplace noise "leakage_upper" (Corollary 1 of [ZSO]), an upper bound
        for any number of records that is exact for one up to 4096 cells, "dp", the epsilon of
        differential privacy under replace, and "leakage_lower", the leakage at extreme outputs, a
        lower bound (None if it has too many sign patterns); for Gaussian noise "slack" and
        "envelope", the deltas of both kinds of failure, and "dp", that of differential privacy.

    Raises:
        InvalidInputError: an argument out of range, or missing.
    """
    measured, noise = as_strategy(strategy), member("noise", noise, Noise)
    if noise is Noise.LAPLACE and epsilon is not None:
        raise InvalidInputError(
            "epsilon is for Gaussian noise; remove `epsilon` or pass `noise='gaussian'`"
        )
    promises = _promises(noise, alpha, epsilon)
    shown: dict[str, Any] = {"scale": scale, "alpha": alpha}
    if noise is Noise.LAPLACE:
        scale = positive("scale", scale)
    else:
        scale, shown["epsilon"] = non_negative("scale", scale), epsilon
    every = _compared(measured, noise)
    for name, promise in promises.items():
        shown[name] = leakage_at(every, promise, noise=noise, scale=scale)
    shown["dp"] = dp_loss(measured, noise, scale, epsilon or 0.0)
    if noise is Noise.LAPLACE:
        shown["leakage_lower"] = None  # if there are too many sign patterns to enumerate
        rows, cells = measured.shape
        if rows <= FEW_ROWS or rows * cells <= FEW_ENTRIES:
            with suppress(InvalidInputError):
                shown["leakage_lower"] = extreme_output_leakage(
                    measured.matrix, scale=scale, alpha=alpha
                )
    return shown


def alpha_curve(
    strategy: Any,
    *,
    scale: float,
    alpha: float | tuple[float, ...],
    noise: Noise | str = Noise.LAPLACE,
    epsilon: float | None = None,
    shares: Sequence[float] = SHARES,
) -> dict[str, list[float]]:
    """The loss of noise as alpha falls below the assumed value, down to differential privacy.

    Args:
        strategy: R, whatever `strategy` takes.
        scale: b of Laplace noise, or the standard deviation of Gaussian noise.
        alpha: the assumed value, as for `leakage`.
        noise: "laplace" or "gaussian".
        epsilon: for Gaussian noise the leakage whose delta is asked for.
        shares: of alpha that hold, in [0, 1]; at 0 differential privacy, one record replaced.

    Returns:
        "share", and for each the leakage "leakage_upper" (Laplace noise), or the deltas "slack" and
        "envelope" (Gaussian noise); rounded upwards.

    Raises:
        InvalidInputError: an argument out of range, or missing.
    """
    measured, noise = as_strategy(strategy), member("noise", noise, Noise)
    shares = doubles(real_numbers("shares", shares)).ravel().tolist()
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise InvalidInputError(f"shares must be in [0, 1], one or more, got {shown(shares)}")
    promises = _promises(noise, alpha, epsilon)
    scale = positive("scale", scale)
    every = _compared(measured, noise)
    curves = {
        name: [loss_at(every, promise, noise, scale, share) for share in shares]
        for name, promise in promises.items()
    }
    return {"share": [float(share) for share in shares], **curves}


def _compared(measured: Strategy, noise: Noise) -> Strategy:
    """With all distances of columns, not the largest alone, up to WRITTEN cells."""
    if measured.cells > WRITTEN or measured.distance_profile(noise.norm) is None:
        return measured
    return in_pairs(measured)


def _promises(
    noise: Noise, alpha: float | tuple[float, ...], epsilon: float | None
) -> dict[str, PMLGuarantee]:
    """The guarantees whose losses are shown, by their names there."""
    if noise is Noise.LAPLACE:
        return {"leakage_upper": PML(1.0 if epsilon is None else epsilon, alpha)}
    if epsilon is None:
        raise InvalidInputError(
            "Gaussian noise leaks any amount with some probability; pass `epsilon` to see it"
        )
    return {
        "slack": ApproxPML(epsilon, 0.5, alpha),
        "envelope": EnvelopePML(epsilon, 0.5, alpha),
    }
