"""Pointwise maximal leakage: of finite channels, their envelope, and noise on a strategy."""

from typing import TYPE_CHECKING

from pmldesign.envelope.bounds import RandomizedResponseBounds as RandomizedResponseBounds
from pmldesign.envelope.bounds import binary_envelope as binary_envelope
from pmldesign.envelope.bounds import composition_bound as composition_bound
from pmldesign.envelope.bounds import cvar_bound as cvar_bound
from pmldesign.envelope.bounds import maximal_leakage_bound as maximal_leakage_bound
from pmldesign.envelope.bounds import randomized_response_bounds as randomized_response_bounds
from pmldesign.envelope.bounds import randomized_response_dp as randomized_response_dp
from pmldesign.envelope.bounds import randomized_response_envelope as randomized_response_envelope
from pmldesign.envelope.channel import Channel as Channel
from pmldesign.envelope.channel import additive_slack as additive_slack
from pmldesign.envelope.channel import conditional_maximal_leakage as conditional_maximal_leakage
from pmldesign.envelope.channel import event_leakage as event_leakage
from pmldesign.envelope.channel import expected_excess as expected_excess
from pmldesign.envelope.channel import failure_probability as failure_probability
from pmldesign.envelope.channel import leakage_quantile as leakage_quantile
from pmldesign.envelope.channel import maximal_leakage as maximal_leakage
from pmldesign.envelope.channel import pointwise_leakage as pointwise_leakage
from pmldesign.envelope.curve import EnvelopeCurve as EnvelopeCurve
from pmldesign.envelope.curve import Plateau as Plateau
from pmldesign.envelope.curve import envelope_curve as envelope_curve
from pmldesign.envelope.curve import envelope_plateaus as envelope_plateaus
from pmldesign.envelope.exact import EnvelopeValue as EnvelopeValue
from pmldesign.envelope.exact import closed_failure_bound as closed_failure_bound
from pmldesign.envelope.exact import closed_failure_probability as closed_failure_probability
from pmldesign.envelope.exact import exact_envelope as exact_envelope
from pmldesign.envelope.mechanisms import extremal as extremal
from pmldesign.envelope.mechanisms import parse_channel as parse_channel
from pmldesign.envelope.mechanisms import quantized_gaussian as quantized_gaussian
from pmldesign.envelope.mechanisms import quantized_laplace as quantized_laplace
from pmldesign.envelope.mechanisms import randomized_response as randomized_response
from pmldesign.envelope.programs import failure_program as failure_program
from pmldesign_solvers import face as _face

if TYPE_CHECKING:
    from pmldesign.mechanisms.losses import alpha_curve as alpha_curve
    from pmldesign.mechanisms.losses import leakage as leakage
    from pmldesign.privacy.public_sample import sampled_alpha as sampled_alpha

_OF_NOISE = {
    "mechanisms.losses": "alpha_curve leakage",
    "privacy.public_sample": "sampled_alpha",
}
_of_noise = _face("pmldesign", _OF_NOISE)


def __getattr__(name: str) -> object:
    try:
        return _of_noise(name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted([*globals(), *" ".join(_OF_NOISE.values()).split()])
