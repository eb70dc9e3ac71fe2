"""Mechanisms: a strategy, noise, and the guarantee that they meet."""

from pmldesign.mechanisms.choice import NoiseChoice as NoiseChoice
from pmldesign.mechanisms.choice import admissible as admissible
from pmldesign.mechanisms.choice import answered_workload as answered_workload
from pmldesign.mechanisms.choice import calibrated as calibrated
from pmldesign.mechanisms.choice import compose as compose
from pmldesign.mechanisms.choice import mechanism as mechanism
from pmldesign.mechanisms.choice import require_feasible as require_feasible
from pmldesign.mechanisms.choice import smallest_error as smallest_error
from pmldesign.mechanisms.exact_error import Mechanism as Mechanism
