"""Mechanisms: a strategy, noise, and the guarantee that they meet."""

from pmldesign.mechanisms.choice import NoiseChoice as NoiseChoice
from pmldesign.mechanisms.choice import admissible as admissible
from pmldesign.mechanisms.choice import answered_workload as answered_workload
from pmldesign.mechanisms.choice import calibrated as calibrated
from pmldesign.mechanisms.choice import compose as compose
from pmldesign.mechanisms.choice import integer_valued as integer_valued
from pmldesign.mechanisms.choice import mechanism as mechanism
from pmldesign.mechanisms.choice import on_own_grid as on_own_grid
from pmldesign.mechanisms.choice import own_grid_gain as own_grid_gain
from pmldesign.mechanisms.choice import require_cells as require_cells
from pmldesign.mechanisms.choice import require_feasible as require_feasible
from pmldesign.mechanisms.choice import smallest_error as smallest_error
from pmldesign.mechanisms.discrete import discrete_error as discrete_error
from pmldesign.mechanisms.discrete import discrete_half_widths as discrete_half_widths
from pmldesign.mechanisms.discrete import own_lattice as own_lattice
from pmldesign.mechanisms.exact_error import Mechanism as Mechanism
from pmldesign.mechanisms.exact_error import ReleaseArguments as ReleaseArguments
