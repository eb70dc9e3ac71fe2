"""What noise on a matrix R loses under PML, from the distances of all columns; sensitivities."""

import math
from functools import partial

import numpy as np

from pmldesign.privacy import (
    distinct_columns,
    envelope_from_distances,
    laplace_leakage_from_distances,
    least_masses,
    pairwise_distances,
    sensitivity_above,
    slack_from_distances,
)

l1_sensitivity = partial(sensitivity_above, norm="l1")
l2_sensitivity = partial(sensitivity_above, norm="l2")


def laplace_leakage_bound(R, *, scale, alpha):
    """The leakage of Laplace noise: Corollary 1 of [ZSO]."""
    distances = pairwise_distances(R, norm="l1")
    return laplace_leakage_from_distances(distances, least_masses(alpha, distances), scale)


def gaussian_slack_delta(R, *, scale, epsilon, alpha):
    """The slack of Gaussian noise at epsilon."""
    return slack_from_distances(*_distances_and_masses(R, alpha), scale, epsilon)


def gaussian_envelope_delta(R, *, scale, epsilon, alpha):
    """The probability that any post-processing of Gaussian noise leaks more than epsilon."""
    return envelope_from_distances(*_distances_and_masses(R, alpha), scale, epsilon)


def _distances_and_masses(R, alpha):
    columns, cell_of = distinct_columns(np.asarray(R, dtype=np.float64))
    distances = pairwise_distances(columns, norm="l2")
    return distances, least_masses(alpha, distances, cell_of)


def pml_from_dp(epsilon, alpha):
    """Leakage on Q_alpha of any mechanism that is epsilon-DP under replace, at most.

    f_r/f_Y = 1/(p_r + sum_j p_j f_j/f_r) <= 1/(alpha + (1 - alpha) e^-eps).
    """
    if epsilon < 1:
        return epsilon - math.log1p(alpha * math.expm1(epsilon))
    return -math.log(alpha + (1 - alpha) * math.exp(-epsilon))


def dp_from_pml(epsilon, alpha):
    """The inverse, for epsilon below log(1/alpha)."""
    return epsilon + math.log1p(-alpha) - math.log(-math.expm1(epsilon + math.log(alpha)))
