"""The pointwise maximal leakage of noise on what a strategy measures, in nats.

It is for any number of records whose cells have at least some probability, alpha; as alpha falls it
grows, up to differential privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pmldesign.arguments import doubles, positive, real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.alpha.fallback import SHARES, loss_at
from pmldesign.privacy.calibration import gaussian_delta
from pmldesign.privacy.extreme_outputs import extreme_output_leakage
from pmldesign.privacy.gaussian_leakage import gaussian_envelope_delta, gaussian_slack_delta
from pmldesign.privacy.guarantees import PML, ApproxPML, EnvelopePML, PMLGuarantee
from pmldesign.privacy.laplace_leakage import laplace_leakage_bound
from pmldesign.privacy.neighbours import Neighbours, l1_sensitivity, l2_sensitivity
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import quotient_above
from pmldesign.strategies import as_strategy


def leakage(
    strategy: Any,
    *,
    scale: float,
    alpha: float | tuple[float, ...],
    noise: Noise | str = Noise.LAPLACE,
    epsilon: float | None = None,
) -> dict[str, Any]:
    """The pointwise maximal leakage of noise on what a strategy measures, in nats.

    Args:
        strategy: R, whatever `strategy` takes.
        scale: b of Laplace noise, or the standard deviation of Gaussian noise.
        alpha: least probability of a cell: one number for all cells, or one for each.
        noise: "laplace" or "gaussian".
        epsilon: for Gaussian noise the leakage whose delta is asked for.

    Returns:
        The arguments, and for Laplace noise "corollary1", an upper bound for any number of records
        that is exact for one, "dp", the epsilon of differential privacy under replace, and
        "extreme_output", a lower bound (None where it takes too long); for Gaussian noise "slack"
        and "envelope", the deltas of both kinds of failure, and "dp", that of differential privacy.

    Raises:
        InvalidInputError: an argument out of range, or missing.
    """
    matrix = as_strategy(strategy).matrix
    if Noise(noise) is Noise.LAPLACE:
        if epsilon is not None:
            raise InvalidInputError("epsilon is for noise 'gaussian'; leave it out")
        return _laplace(matrix, scale, alpha)
    if epsilon is None:
        raise InvalidInputError(
            "Gaussian noise leaks any amount with some probability; give epsilon to see it"
        )
    arguments: dict[str, Any] = {"scale": scale, "alpha": alpha, "epsilon": epsilon}
    return {
        **arguments,
        "slack": gaussian_slack_delta(matrix, **arguments),
        "envelope": gaussian_envelope_delta(matrix, **arguments),
        "dp": gaussian_delta(l2_sensitivity(matrix, Neighbours.REPLACE), scale, epsilon),
    }


def alpha_curve(
    strategy: Any,
    *,
    scale: float,
    alpha: float | tuple[float, ...],
    noise: Noise | str = Noise.LAPLACE,
    epsilon: float | None = None,
    shares: Sequence[float] = SHARES,
) -> dict[str, list[float]]:
    """What noise loses as alpha falls below what was assumed, down to differential privacy.

    Args:
        strategy: R, whatever `strategy` takes.
        scale: b of Laplace noise, or the standard deviation of Gaussian noise.
        alpha: what was assumed, as for `leakage`.
        noise: "laplace" or "gaussian".
        epsilon: for Gaussian noise the leakage whose delta is asked for.
        shares: of alpha that hold, in [0, 1]; at 0 differential privacy, one record replaced.

    Returns:
        "share", and for each the leakage "corollary1" (Laplace noise), or the deltas "slack" and
        "envelope" (Gaussian noise); rounded upwards.

    Raises:
        InvalidInputError: an argument out of range, or missing.
    """
    measured, noise = as_strategy(strategy), Noise(noise)
    if noise is Noise.GAUSSIAN and epsilon is None:
        raise InvalidInputError(
            "Gaussian noise needs epsilon, the leakage whose delta is asked for"
        )
    shares = doubles(real_numbers("shares", shares)).ravel().tolist()
    if min(shares) < 0 or max(shares) > 1:
        raise InvalidInputError(f"shares must be in [0, 1], got {min(shares)} to {max(shares)}")
    if noise is Noise.LAPLACE:
        promises: dict[str, PMLGuarantee] = {"corollary1": PML(epsilon or 1.0, alpha)}
    else:
        assert epsilon is not None
        promises = {
            "slack": ApproxPML(epsilon, 0.5, alpha),
            "envelope": EnvelopePML(epsilon, 0.5, alpha),
        }
    scale = positive("scale", scale)
    curves = {
        name: [loss_at(measured, promise, noise, scale, share) for share in shares]
        for name, promise in promises.items()
    }
    return {"share": [float(share) for share in shares], **curves}


def _laplace(matrix: Any, scale: float, alpha: float | tuple[float, ...]) -> dict[str, Any]:
    bound = laplace_leakage_bound(matrix, scale=scale, alpha=alpha)
    try:
        extreme: float | None = extreme_output_leakage(matrix, scale=scale, alpha=alpha)
    except InvalidInputError:
        if scale <= 0:
            raise
        extreme = None  # too many sign patterns to enumerate
    sensitivity = l1_sensitivity(matrix, Neighbours.REPLACE)
    return {
        "scale": scale,
        "alpha": alpha,
        "corollary1": bound,
        "dp": quotient_above(sensitivity, scale),
        "extreme_output": extreme,
    }
