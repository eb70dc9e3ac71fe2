"""What is promised: arithmetic whose rounding never weakens a guarantee."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "analytic_gaussian": "analytic_gaussian_scale classical_gaussian_scale "
        "gaussian_delta gaussian_profile",
        "calibration": "calibrate laplace_scale",
        "columns": "distance_blocks",
        "composition": "composed",
        "curves": "PrivacyCurve curve_of laplace_renyi pure_curve",
        "gaussian_leakage": "gaussian_envelope_delta gaussian_slack_delta",
        "guarantees": "ApproxDP ApproxPML EnvelopePML GaussianDP KINDS PML PureDP ZCDP from_json",
        "laplace_leakage": "dp_from_pml extreme_output_leakage laplace_leakage_bound pml_from_dp",
        "neighbours": "DistanceProfile Neighbours l1_sensitivity l2_sensitivity "
        "pairwise_distances scaled_distances sensitivity_above",
        "noise": "Noise cube_error gaussian_error gaussian_moment_root laplace_error",
        "outward": "at_least at_most private_end shortest to_places",
        "priors": "least_masses worst_mean",
        "public_sample": "BALL SampledAlpha sampled_alpha",
    },
)
