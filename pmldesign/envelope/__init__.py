"""Finite channels: pointwise maximal leakage, and its envelope under any post-processing."""

from pmldesign.envelope.bounds import (
    binary_envelope,
    composition_bound,
    cvar_bound,
    theorem3_bound,
)
from pmldesign.envelope.channel import Channel
from pmldesign.envelope.closed_form import (
    RandomizedResponseBounds,
    randomized_response_bounds,
    randomized_response_dp,
    randomized_response_envelope,
)
from pmldesign.envelope.curve import EnvelopeCurve, Plateau, envelope_curve, envelope_plateaus
from pmldesign.envelope.exact import (
    EnvelopeValue,
    closed_failure_bound,
    closed_failure_probability,
    exact_envelope,
)
from pmldesign.envelope.measures import (
    conditional_maximal_leakage,
    event_leakage,
    failure_probability,
    leakage_quantile,
    maximal_leakage,
    pointwise_leakage,
    psi_1,
    psi_2,
)
from pmldesign.envelope.mechanisms import (
    extremal,
    parse_channel,
    quantized_gaussian,
    quantized_laplace,
    randomized_response,
)
from pmldesign.envelope.programs import failure_program

__all__ = [
    "Channel",
    "EnvelopeCurve",
    "EnvelopeValue",
    "Plateau",
    "RandomizedResponseBounds",
    "binary_envelope",
    "closed_failure_bound",
    "closed_failure_probability",
    "composition_bound",
    "conditional_maximal_leakage",
    "cvar_bound",
    "envelope_curve",
    "envelope_plateaus",
    "event_leakage",
    "exact_envelope",
    "extremal",
    "failure_probability",
    "failure_program",
    "leakage_quantile",
    "maximal_leakage",
    "parse_channel",
    "pointwise_leakage",
    "psi_1",
    "psi_2",
    "quantized_gaussian",
    "quantized_laplace",
    "randomized_response",
    "randomized_response_bounds",
    "randomized_response_dp",
    "randomized_response_envelope",
    "theorem3_bound",
]
