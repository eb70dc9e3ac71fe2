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
        "gaussian_leakage": "envelope_from_distances slack_from_distances",
        "guarantee_syntax": "guarantee_text parse_guarantee",
        "guarantees": "ApproxDP ApproxPML EnvelopePML GaussianDP KINDS PML PureDP ZCDP from_json",
        "laplace_leakage": "extreme_output_leakage laplace_leakage_from_distances",
        "neighbours": "DistanceProfile Neighbours distinct_columns "
        "pairwise_distances scaled_distances sensitivity_above",
        "noise": "Noise cube_error gaussian_error gaussian_moment_root laplace_error",
        "outward": "at_least at_most private_end shortest to_places",
        "priors": "least_masses worst_mean",
        "public_sample": "BALL SampledAlpha sampled_alpha",
        "sampled_steps": "FAR loss_at on_a_line one_step parts_of sampled_delta",
    },
)
