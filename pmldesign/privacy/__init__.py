"""What is promised: arithmetic whose rounding never weakens a guarantee."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "alpha.ball": "least_masses",
        "alpha.sample": "BALL SampledAlpha sampled_alpha",
        "analytic_gaussian": "analytic_gaussian_scale classical_gaussian_scale "
        "gaussian_delta gaussian_profile",
        "brackets": "private_end",
        "calibration": "calibrate laplace_scale",
        "columns": "distance_blocks",
        "currencies.composition": "composed",
        "currencies.curves": "PrivacyCurve curve_of laplace_renyi pure_curve",
        "currencies.guarantees": "GaussianDP ZCDP",
        "digits": "at_least at_most shortest to_places",
        "gaussian_leakage": "gaussian_envelope_delta gaussian_slack_delta",
        "guarantees": "ApproxDP ApproxPML EnvelopePML KINDS PML PureDP from_json",
        "laplace_leakage": "dp_from_pml extreme_output_leakage laplace_leakage_bound pml_from_dp",
        "neighbours": "DistanceProfile Neighbours l1_sensitivity l2_sensitivity "
        "pairwise_distances scaled_distances sensitivity_above",
        "noise": "Noise cube_error gaussian_error gaussian_moment_root laplace_error",
        "priors": "worst_mean",
    },
)
