"""Optimal private mechanisms for linear query workloads, with a certificate.

    import pmldesign as pml

    queries = pml.workload("prefix:64")
    best = pml.factorize(queries, p=4)                  # least norm, both bounds certified
    noisy = pml.optimize(queries, guarantee=pml.ApproxDP(1, 1e-6))      # the best mechanism

Every function takes a workload as a name, a matrix, a data frame or a Workload, and a strategy as a
name, a matrix, a factorization or a Strategy. docs/python.md is the manual.

Names are loaded when they are first used, so that `import pmldesign` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmldesign.api import alpha_curve as alpha_curve
    from pmldesign.api import calibrate as calibrate
    from pmldesign.api import error_bounds as error_bounds
    from pmldesign.api import leakage as leakage
    from pmldesign.api import strategy as strategy
    from pmldesign.api import weighted as weighted
    from pmldesign.api import workload as workload
    from pmldesign.bounds import Bound as Bound
    from pmldesign.comparison.comparison import Comparison as Comparison
    from pmldesign.comparison.comparison import compare as compare
    from pmldesign.comparison.comparison import compare_all as compare_all
    from pmldesign.comparison.sweeping import Sweep as Sweep
    from pmldesign.comparison.sweeping import sweep as sweep
    from pmldesign.designs.best_noise import all_designs as all_designs
    from pmldesign.designs.best_noise import optimize as optimize
    from pmldesign.designs.min_norm import Design as Design
    from pmldesign.designs.min_norm import factorize as factorize
    from pmldesign.designs.options import DesignOptions as DesignOptions
    from pmldesign.designs.results import Optimized as Optimized
    from pmldesign.designs.targets.accuracy import Targets as Targets
    from pmldesign.designs.targets.least import LeastBudget as LeastBudget
    from pmldesign.designs.targets.least import least_budget as least_budget
    from pmldesign.envelope import Channel as Channel
    from pmldesign.envelope import EnvelopeCurve as EnvelopeCurve
    from pmldesign.envelope import EnvelopeValue as EnvelopeValue
    from pmldesign.envelope import Plateau as Plateau
    from pmldesign.envelope import RandomizedResponseBounds as RandomizedResponseBounds
    from pmldesign.envelope import binary_envelope as binary_envelope
    from pmldesign.envelope import closed_failure_bound as closed_failure_bound
    from pmldesign.envelope import closed_failure_probability as closed_failure_probability
    from pmldesign.envelope import composition_bound as composition_bound
    from pmldesign.envelope import conditional_maximal_leakage as conditional_maximal_leakage
    from pmldesign.envelope import cvar_bound as cvar_bound
    from pmldesign.envelope import envelope_curve as envelope_curve
    from pmldesign.envelope import envelope_plateaus as envelope_plateaus
    from pmldesign.envelope import event_leakage as event_leakage
    from pmldesign.envelope import exact_envelope as exact_envelope
    from pmldesign.envelope import extremal as extremal
    from pmldesign.envelope import failure_probability as failure_probability
    from pmldesign.envelope import failure_program as failure_program
    from pmldesign.envelope import leakage_quantile as leakage_quantile
    from pmldesign.envelope import maximal_leakage as maximal_leakage
    from pmldesign.envelope import parse_channel as parse_channel
    from pmldesign.envelope import pointwise_leakage as pointwise_leakage
    from pmldesign.envelope import psi_1 as psi_1
    from pmldesign.envelope import psi_2 as psi_2
    from pmldesign.envelope import quantized_gaussian as quantized_gaussian
    from pmldesign.envelope import quantized_laplace as quantized_laplace
    from pmldesign.envelope import randomized_response as randomized_response
    from pmldesign.envelope import randomized_response_bounds as randomized_response_bounds
    from pmldesign.envelope import randomized_response_dp as randomized_response_dp
    from pmldesign.envelope import randomized_response_envelope as randomized_response_envelope
    from pmldesign.envelope import theorem3_bound as theorem3_bound
    from pmldesign.errors import FileError as FileError
    from pmldesign.errors import InfeasibleError as InfeasibleError
    from pmldesign.errors import InvalidInputError as InvalidInputError
    from pmldesign.errors import NotConvergedError as NotConvergedError
    from pmldesign.errors import PmldesignError as PmldesignError
    from pmldesign.errors import VacuousGuaranteeError as VacuousGuaranteeError
    from pmldesign.errors import VerificationError as VerificationError
    from pmldesign.files import read_channel as read_channel
    from pmldesign.files import read_guarantee as read_guarantee
    from pmldesign.files import read_strategy as read_strategy
    from pmldesign.files import read_workload as read_workload
    from pmldesign.files import verify_file as verify_file
    from pmldesign.files import write_strategy as write_strategy
    from pmldesign.files import write_workload as write_workload
    from pmldesign.mechanisms import Mechanism as Mechanism
    from pmldesign.mechanisms import compose as compose
    from pmldesign.mechanisms import mechanism as mechanism
    from pmldesign.plots.notebook import progress as progress
    from pmldesign.plots.objects import plot as plot
    from pmldesign.privacy.alpha.sample import sampled_alpha as sampled_alpha
    from pmldesign.privacy.calibration import Calibration as Calibration
    from pmldesign.privacy.guarantees import PML as PML
    from pmldesign.privacy.guarantees import ZCDP as ZCDP
    from pmldesign.privacy.guarantees import ApproxDP as ApproxDP
    from pmldesign.privacy.guarantees import ApproxPML as ApproxPML
    from pmldesign.privacy.guarantees import EnvelopePML as EnvelopePML
    from pmldesign.privacy.guarantees import GaussianDP as GaussianDP
    from pmldesign.privacy.guarantees import Guarantee as Guarantee
    from pmldesign.privacy.guarantees import PureDP as PureDP
    from pmldesign.privacy.guarantees import RenyiDP as RenyiDP
    from pmldesign.privacy.neighbours import Neighbours as Neighbours
    from pmldesign.privacy.noise import Noise as Noise
    from pmldesign.release.costs.budget import Budget as Budget
    from pmldesign.release.costs.plan import Plan as Plan
    from pmldesign.release.costs.plan import parse_plan as parse_plan
    from pmldesign.release.people.drafts import draft_schema as draft_schema
    from pmldesign.release.people.schema import Schema as Schema
    from pmldesign.release.people.schema import read_schema as read_schema
    from pmldesign.release.publish import release_tables as release_tables
    from pmldesign.release.result import Release as Release
    from pmldesign.strategies import BASELINES as BASELINES
    from pmldesign.strategies import Strategy as Strategy
    from pmldesign.strategies import baseline as baseline
    from pmldesign.verify import Verification as Verification
    from pmldesign.workloads import Workload as Workload
    from pmldesign.workloads import named_workloads as named_workloads

    __version__: str

_HOMES = {
    "pmldesign.api": ("alpha_curve calibrate error_bounds leakage strategy weighted workload"),
    "pmldesign.bounds": "Bound",
    "pmldesign.comparison.comparison": "Comparison compare compare_all",
    "pmldesign.comparison.sweeping": "Sweep sweep",
    "pmldesign.designs.best_noise": "all_designs optimize",
    "pmldesign.designs.results": "Optimized",
    "pmldesign.designs.min_norm": "Design factorize",
    "pmldesign.designs.targets.accuracy": "Targets",
    "pmldesign.designs.targets.least": "LeastBudget least_budget",
    "pmldesign.designs.options": "DesignOptions",
    "pmldesign.envelope": (
        "Channel EnvelopeCurve EnvelopeValue Plateau RandomizedResponseBounds "
        "binary_envelope closed_failure_bound closed_failure_probability "
        "composition_bound conditional_maximal_leakage cvar_bound envelope_curve "
        "envelope_plateaus event_leakage exact_envelope extremal failure_probability "
        "failure_program leakage_quantile maximal_leakage parse_channel pointwise_leakage "
        "psi_1 psi_2 quantized_gaussian quantized_laplace randomized_response "
        "randomized_response_bounds randomized_response_dp randomized_response_envelope "
        "theorem3_bound"
    ),
    "pmldesign.errors": (
        "FileError InfeasibleError InvalidInputError NotConvergedError PmldesignError "
        "VacuousGuaranteeError VerificationError"
    ),
    "pmldesign.files": (
        "read_channel read_guarantee read_strategy read_workload verify_file write_strategy "
        "write_workload"
    ),
    "pmldesign.mechanisms": "Mechanism compose mechanism",
    "pmldesign.privacy.alpha.sample": "sampled_alpha",
    "pmldesign.plots.notebook": "progress",
    "pmldesign.plots.objects": "plot",
    "pmldesign.privacy.calibration": "Calibration",
    "pmldesign.privacy.guarantees": (
        "PML ApproxDP ApproxPML EnvelopePML GaussianDP Guarantee PureDP RenyiDP ZCDP"
    ),
    "pmldesign.privacy.neighbours": "Neighbours",
    "pmldesign.privacy.noise": "Noise",
    "pmldesign.release.costs.budget": "Budget",
    "pmldesign.release.people.drafts": "draft_schema",
    "pmldesign.release.people.schema": "Schema read_schema",
    "pmldesign.release.costs.plan": "Plan parse_plan",
    "pmldesign.release.publish": "release_tables",
    "pmldesign.release.result": "Release",
    "pmldesign.strategies": "BASELINES Strategy baseline",
    "pmldesign.verify": "Verification",
    "pmldesign.workloads": "Workload named_workloads",
}
"""The public names of every module that has some."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("pmldesign")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value  # the next use finds it at once
        return value
    raise AttributeError(f"module 'pmldesign' has no attribute {name!r}; see dir(pmldesign)")


def __dir__() -> list[str]:
    return [*__all__]
