"""Mechanisms: a strategy, noise, and the guarantee that they meet."""

from pmldesign.mechanisms.choice import (
    NoiseChoice,
    admissible,
    answered_workload,
    calibrated,
    mechanism,
    require_feasible,
    smallest_error,
)
from pmldesign.mechanisms.composition import compose
from pmldesign.mechanisms.exact_error import Mechanism

__all__ = [
    "Mechanism",
    "NoiseChoice",
    "admissible",
    "answered_workload",
    "calibrated",
    "compose",
    "mechanism",
    "require_feasible",
    "smallest_error",
]
