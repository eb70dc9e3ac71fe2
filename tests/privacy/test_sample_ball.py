"""Limits and an l1 ball around a public sample: linear programs, brute force and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

import pmldesign as pml
from pmldesign.privacy import (
    SampledAlpha,
    least_masses,
    pairwise_distances,
    sampled_alpha,
    worst_mean,
)


def worst_of_program(values, alpha):
    """The least sum q_j v_j over limits and ball, q = f + up - down."""
    frequencies = np.array(alpha.counts) / alpha.records
    room = frequencies - np.array(alpha)
    k = values.size
    program = linprog(
        np.concatenate([values, -values]),
        A_ub=[np.ones(2 * k)],
        b_ub=[alpha.radius],
        A_eq=[np.concatenate([np.ones(k), -np.ones(k)])],
        b_eq=[0.0],
        bounds=[(0, None)] * k + [(0, most) for most in room],
    )
    return frequencies @ values + program.fun


def random_alpha(rng, k):
    counts = rng.integers(1, 50, k)
    limits = counts / counts.sum() * rng.random(k)
    return SampledAlpha(limits.tolist(), counts.tolist(), 0.9, rng.uniform(0, 2.5))


def members(rng, alpha, count=40):
    """Distributions of the set: its corners in random directions, and mixtures of them."""
    frequencies, k = np.array(alpha.counts) / alpha.records, len(alpha)
    corners = []
    for _ in range(count):
        moved = np.minimum(frequencies - np.array(alpha), rng.dirichlet(np.full(k, 0.3)))
        moved *= min(1.0, alpha.radius / 2 / moved.sum())
        to = rng.dirichlet(np.full(k, 0.1)) if rng.random() < 0.5 else np.eye(k)[rng.integers(k)]
        corners.append(frequencies - moved + to * moved.sum())
    for q in corners:
        assert (q >= np.array(alpha) - 1e-12).all()
        assert np.abs(q - frequencies).sum() <= alpha.radius + 1e-12
    return corners


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_the_worst_distribution_is_that_of_a_linear_program(seed, k):
    rng = np.random.default_rng(seed)
    alpha, distances = random_alpha(rng, k), rng.integers(0, 5, (3, k)).astype(float)
    values = np.exp(-distances / rng.uniform(0.5, 4))
    least = worst_mean(values, least_masses(alpha, distances), values.min(axis=1))
    for row, value in zip(values, least, strict=True):
        assert value == pytest.approx(worst_of_program(row, alpha), abs=1e-9)
    share = rng.random()
    shrunk = least_masses(alpha.shrunk(share), distances)
    mixed = share * least + (1 - share) * values.min(axis=1)
    assert worst_mean(values, shrunk, values.min(axis=1)) == pytest.approx(mixed, abs=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 4))
def test_every_event_of_a_random_channel_is_a_step_of_dp(seed, k):
    """What slack on the set says of two classes, by programs for all events."""
    rng = np.random.default_rng(seed)
    alpha, channel = random_alpha(rng, k), rng.dirichlet(np.full(3, 0.5), size=k)
    P = channel @ (np.arange(8)[:, None] >> np.arange(3) & 1).T
    epsilon = rng.uniform(0.05, 0.9) * -math.log(min(alpha))
    least = np.array([worst_of_program(event, alpha) for event in P.T])
    delta = max(float((P - math.exp(epsilon) * least).max()), 1e-9)
    found = pml.ApproxPML(epsilon, delta, alpha).shifts(k) if delta < 1 else None
    if found is not None:
        pairs = P[:, None, :] - math.exp(found.epsilon) * P[None, :, :]
        assert pairs.max() <= found.delta + 1e-9


@given(st.integers(0, 10**6), st.integers(2, 5))
def test_laplace_noise_of_the_scale_leaks_no_more_about_one_of_two_records(seed, k):
    """By densities at many outputs, for many distributions of both records."""
    rng = np.random.default_rng(seed)
    R, alpha, epsilon = rng.integers(-2, 3, (2, k)).astype(float), random_alpha(rng, k), 0.8
    if np.ptp(R, axis=1).max() == 0 or -math.log(min(alpha)) <= epsilon:
        return
    scale = pml.calibrate(R, pml.PML(epsilon, alpha), noise="laplace", allow_vacuous=True).scale
    if scale == 0:
        return
    qs = members(rng, alpha)
    R /= scale
    largest = 0.0
    for q, other in zip(qs, reversed(qs), strict=True):
        for mean, weights in ((R[:, :1], [1.0]), (R, other)):  # one record, and two
            spots = np.hstack([R[:, a : a + 1] + mean for a in range(k)])
            spots = np.hstack([spots, spots + 3 * rng.standard_normal(spots.shape)])
            of_cell = np.array(
                [
                    np.exp(-np.abs(spots[:, :, None] - (mean + R[:, [a]])[:, None]).sum(0))
                    @ weights
                    for a in range(k)
                ]
            )
            largest = max(largest, float(np.log(of_cell.max(0) / (q @ of_cell)).max()))
    assert largest <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["laplace", "slack", "envelope"])
def test_of_one_query_and_one_record_by_integration(kind):
    """The worst distribution of a program comes close to what is promised, none exceeds it."""
    rng, R = np.random.default_rng(3), np.array([[0.0, 1.0, 3.0]])
    alpha = SampledAlpha((0.1, 0.15, 0.2), (300, 300, 400), 0.9, 0.3)
    guarantee = {
        "laplace": pml.PML(0.7, alpha),
        "slack": pml.ApproxPML(0.5, 0.02, alpha),
        "envelope": pml.EnvelopePML(0.5, 0.02, alpha),
    }[kind]
    noise = "laplace" if kind == "laplace" else "gaussian"
    scale = pml.calibrate(R, guarantee, noise=noise).scale
    y, step = np.linspace(-12 * scale, 12 * scale + 3, 40001, retstep=True)
    law = stats.laplace if kind == "laplace" else stats.norm
    densities = law.pdf(y[None], loc=R.T, scale=scale)
    growth, losses = math.exp(guarantee.epsilon), []
    corners = [
        np.array([0.15, 0.3, 0.55]),
        np.array([0.3, 0.15, 0.55]),
        np.array([0.45, 0.3, 0.25]),
    ]
    for q in corners + members(rng, alpha):
        mixed = q @ densities
        if kind == "laplace":
            losses.append(np.log(densities / mixed).max())
        elif kind == "slack":
            losses.append((densities - growth * mixed).clip(min=0).sum(axis=1).max() * step)
        else:
            losses.append(mixed[(densities > growth * mixed).any(axis=0)].sum() * step)
    promised = guarantee.delta or guarantee.epsilon
    assert max(losses) <= promised * (1 + 1e-4)
    assert max(losses) >= promised * {"laplace": 0.999, "slack": 0.4, "envelope": 0.05}[kind]


HOSTILE = {
    "even": (0.5, 0.5),
    "spike": (0.9, 0.05, 0.05),
    "rare": (0.7, 0.1, 0.1, 0.1),
    "one too many": (-math.expm1(math.log1p(-0.19 / 4) / 60),) * 2,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_limits_and_ball_hold_together_as_often_as_stated(name):
    """And noise that is calibrated to a sample leaks no more than promised as often."""
    rng, p = np.random.default_rng(1), np.array(HOSTILE[name])
    p = np.append(p, max(0.0, 1 - p.sum())) if p.sum() < 0.999 else p
    R, confidence, samples = np.tri(p.size), 0.8, rng.multinomial(60, p, 4000)
    kept = {}
    for counts in map(tuple, samples.tolist()):
        if counts not in kept:
            alpha = sampled_alpha(counts, confidence)
            inside = np.abs(np.array(counts) / 60 - p).sum() <= alpha.radius
            kept[counts] = bool(inside and (np.array(alpha) <= p).all())
    assert np.mean([kept[counts] for counts in map(tuple, samples.tolist())]) >= confidence
    leaked = []
    for counts in samples[:60]:
        guarantee = pml.PML(0.3, sampled_alpha(counts, confidence))
        scale = pml.calibrate(R, guarantee, noise="laplace").scale
        terms = np.exp(-pairwise_distances(R, norm="l1") / scale)
        leaked.append(max(-math.log(row @ p) for row in terms) <= 0.3)
    assert np.mean(leaked) >= confidence


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("name", "gain"), [("prefix:12", 0.97), ("histogram:12", 1.001)])
def test_the_ball_helps_where_cells_hide_by_their_neighbours(name, gain, noise):
    """And costs next to nothing where all cells are equally far: limits of the whole failure."""
    counts = np.full(12, 200)
    alone = stats.beta.ppf(0.01 / 12, counts, counts.sum() - counts + 1)
    scales = []
    for alpha in (sampled_alpha(counts, 0.99), tuple(alone)):
        guarantee = pml.ApproxPML(1, 1e-4, alpha) if noise == "gaussian" else pml.PML(1, alpha)
        scales.append(pml.calibrate(pml.workload(name).to_dense(), guarantee, noise=noise).scale)
    weaker = gain if noise == "laplace" or gain > 1 else 0.999
    assert scales[0] <= weaker * scales[1]


def test_more_records_tell_more_and_dp_is_the_limit():
    R = np.tri(5)
    values = [
        pml.envelope.leakage(R, scale=2.0, alpha=sampled_alpha(np.full(5, count)))["leakage_upper"]
        for count in (1, 10, 1000, 10**6)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] <= 4 / 2.0 * (1 + 1e-12)  # the largest l1 distance over b
    exact = max(-math.log(row.mean()) for row in np.exp(-pairwise_distances(R, norm="l1") / 2))
    assert exact < values[-1] < exact * 1.01
    extreme = pml.envelope.leakage(R, scale=2.0, alpha=sampled_alpha(np.full(5, 1000)))
    assert extreme["leakage_lower"] <= extreme["leakage_upper"]


def test_cells_with_equal_measurements_are_one():
    """Merging them in the sample changes nothing but the union bounds."""
    R, counts = np.array([[0.0, 2.0, 2.0, 5.0]]), (90, 60, 70, 80)
    apart = sampled_alpha(counts)
    limits = (apart[0], apart[1] + apart[2], apart[3])
    merged = SampledAlpha(limits, (90, 130, 80), 0.99, apart.radius)
    for noise, make in (("laplace", pml.PML), ("gaussian", lambda e, a: pml.ApproxPML(e, 0.01, a))):
        scales = [
            pml.calibrate(matrix, make(0.6, alpha), noise=noise).scale
            for matrix, alpha in ((R, apart), (R[:, [0, 1, 3]], merged))
        ]
        assert scales[0] == pytest.approx(scales[1], rel=2e-6)
