"""Finite channels: pointwise maximal leakage, and its envelope under any post-processing."""

from pmldesign.envelope.bounds import RandomizedResponseBounds as RandomizedResponseBounds
from pmldesign.envelope.bounds import binary_envelope as binary_envelope
from pmldesign.envelope.bounds import composition_bound as composition_bound
from pmldesign.envelope.bounds import cvar_bound as cvar_bound
from pmldesign.envelope.bounds import randomized_response_bounds as randomized_response_bounds
from pmldesign.envelope.bounds import randomized_response_dp as randomized_response_dp
from pmldesign.envelope.bounds import (
    randomized_response_envelope as randomized_response_envelope,
)
from pmldesign.envelope.bounds import theorem3_bound as theorem3_bound
from pmldesign.envelope.channel import Channel as Channel
from pmldesign.envelope.channel import conditional_maximal_leakage as conditional_maximal_leakage
from pmldesign.envelope.channel import event_leakage as event_leakage
from pmldesign.envelope.channel import failure_probability as failure_probability
from pmldesign.envelope.channel import leakage_quantile as leakage_quantile
from pmldesign.envelope.channel import maximal_leakage as maximal_leakage
from pmldesign.envelope.channel import pointwise_leakage as pointwise_leakage
from pmldesign.envelope.channel import psi_1 as psi_1
from pmldesign.envelope.channel import psi_2 as psi_2
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
