import math

import numpy as np
import pytest
from scipy.special import ndtr

from pmldesign.designs import factorize, gaussian_design, gaussian_pml_search, optimize
from pmldesign.error_bounds import all_bounds
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import calibrated, mechanism
from pmldesign.privacy import ApproxPML, EnvelopePML, Noise
from pmldesign.strategies import identity
from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import Status

UNIFORM = [
    ("prefix:4", 2, ApproxPML(1.0, 1e-6, 1 / 4)),
    ("prefix:5", math.inf, ApproxPML(1.5, 1e-2, 1 / 10)),
    ("haar:8", 4, EnvelopePML(1.0, 1e-6, 1 / 8)),
    ("all-range:4", 2, EnvelopePML(0.5, 1e-3, 1 / 5)),
]


@pytest.mark.parametrize(("name", "p", "guarantee"), UNIFORM)
def test_it_gains_and_answers(name, p, guarantee):
    start = factorize(name, p=p, neighbours="replace")
    found = gaussian_design(start, guarantee)
    before = mechanism(start.strategy, start.workload, guarantee=guarantee, noise="gaussian")
    assert found.mechanism.error(p) < 0.999 * before.error(p)
    A, R = start.workload.to_dense(), found.mechanism.strategy.matrix
    centred = A - A.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found.mechanism.reconstruction() @ R, centred, atol=1e-9)
    assert found.mechanism.calibration.achieved <= guarantee.delta


# where alpha is this small, lower bounds are known
RARE = [
    ("prefix:4", 2, ApproxPML(1.0, 1e-6, 1 / 24)),
    ("haar:4", 4, EnvelopePML(0.5, 1e-6, 1 / 24)),
    ("all-range:4", math.inf, ApproxPML(0.5, 1e-2, 1 / 12)),
]


@pytest.mark.parametrize(("name", "p", "guarantee"), RARE)
def test_no_lower_bound_is_above_it(name, p, guarantee):
    start = factorize(name, p=p, neighbours="replace")
    found = gaussian_design(start, guarantee).mechanism.error(p)
    norm = start.certificate
    known = all_bounds(
        start.workload, norm_lower=norm.lower, norm_upper=norm.upper, p=p, guarantee=guarantee
    )
    values = [one.value for one in known if one.kind.name == "LOWER" and one.value is not None]
    assert values
    assert max(values) <= found


def test_the_noise_keeps_the_promise_for_two_cells():
    # one event is the worst: {y < y*}, two normal probabilities
    guarantee = ApproxPML(0.6, 1e-3, 0.2)
    found = gaussian_design(factorize(np.array([[1.0, 0.0]]), neighbours="replace"), guarantee)
    t = np.ptp(found.mechanism.strategy.matrix, axis=1)[0] / found.mechanism.scale
    grown = math.exp(0.6)
    cut = t / 2 + math.log((1 - grown * 0.2) / (grown * 0.8)) / t
    slack = (1 - grown * 0.2) * ndtr(cut) - grown * 0.8 * ndtr(cut - t)
    assert slack <= 1e-3
    assert slack == pytest.approx(1e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("guarantee", "alpha"),
    [(ApproxPML, (0.4, 0.05, 0.25, 0.3)), (EnvelopePML, 1 / 40), (ApproxPML, 1 / 40)],
)
def test_never_worse_than_its_start_or_single_cells(alpha, guarantee):
    promise = guarantee(0.8, 1e-4, alpha)
    start = factorize("histogram:4", neighbours="replace")
    found = gaussian_design(start, promise).mechanism.error(2)
    for strategy in (start.strategy, identity(4)):
        plain = mechanism(strategy, start.workload, guarantee=promise, noise="gaussian").error(2)
        assert found <= plain * (1 + 1e-12)


def test_optimize_keeps_the_best_of_all():
    guarantee = ApproxPML(1.0, 1e-6, 1 / 8)
    found = optimize("prefix:8", guarantee, noise="gaussian")
    assert list(found.searches) == [Noise.GAUSSIAN]
    assert [row.strategy for row in found.candidates] == ["gaussian-search", "least-norm"]
    assert found.candidates[0].error < found.candidates[1].error
    # nothing to gain on a histogram
    plain = optimize("histogram:8", guarantee, noise="gaussian")
    assert plain.best.strategy.matrix.shape == (7, 8)
    assert plain.origin == "least-norm"


def test_ctrl_c_keeps_the_best_so_far_and_ends_the_search():
    def interrupt(step):
        if hasattr(step, "error"):
            raise KeyboardInterrupt

    guarantee = EnvelopePML(1.0, 1e-6, 1 / 8)
    found = optimize("prefix:8", guarantee, callback=interrupt)
    assert found.interrupted
    assert {noise: one.status for noise, one in found.searches.items()} == {
        Noise.GAUSSIAN: Status.INTERRUPTED
    }
    assert found.best.error(2) == min(row.error for row in found.candidates)


def test_a_time_limit_stops_it():
    start = factorize("prefix:16", neighbours="replace")
    found = gaussian_design(start, ApproxPML(1.0, 1e-6, 1 / 16), time_limit=1e-9)
    assert found.status is Status.TIME_LIMIT
    assert found.mechanism.error(2) == pytest.approx(found.before.error(2), rel=1e-12)


def test_without_time_no_baseline_is_calibrated(monkeypatch):
    measured = []

    def counted(factorization, *arguments):
        measured.append(factorization.strategy.name)
        return calibrated(factorization, *arguments)

    monkeypatch.setattr(gaussian_pml_search, "calibrated", counted)
    start, promise = factorize("prefix:4", neighbours="replace"), ApproxPML(1.0, 1e-6, 1 / 16)
    gaussian_design(start, promise, time_limit=1e-9)
    assert measured == []
    gaussian_design(start, promise)
    assert "tree" in measured


def test_arguments_are_checked():
    guarantee = ApproxPML(1.0, 1e-6, 1 / 8)
    with pytest.raises(InvalidInputError, match="neighbours 'replace'"):
        gaussian_design(factorize("prefix:8"), guarantee)
    with pytest.raises(InvalidInputError, match="time_limit must be"):
        gaussian_design(factorize("prefix:8", neighbours="replace"), guarantee, time_limit=-1)


@pytest.mark.parametrize(
    "guarantee",
    [EnvelopePML(1e-50, 1e-6, 0.1), ApproxPML(1, 1e-300, 0.1)],
    ids=["epsilon", "delta"],
)
def test_beyond_the_smoothed_loss_the_start_is_kept(guarantee):
    start = factorize(parse_workload("prefix:2"), p=2, neighbours="replace")
    kept = gaussian_design(start, guarantee)
    assert kept.status is Status.COMPLETED
    np.testing.assert_allclose(kept.mechanism.strategy.matrix, start.strategy.matrix, atol=1e-14)
