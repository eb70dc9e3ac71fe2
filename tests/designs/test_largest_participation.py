"""Several participations at p > 2: both bounds against what is computed from the definition."""

import itertools
import math

import numpy as np
import pytest

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.files import verify_file, write_strategy
from pmldesign.strategies import without_participation
from pmldesign_solvers.norm import Status

N, TIMES, APART = 20, 2, 10


def value_by_force(design, p):
    """The norm of the standard deviations at sensitivity 1: all patterns, all signs."""
    matrix = without_participation(design.strategy).matrix
    farthest = 0.0
    for first in range(N - APART * (TIMES - 1)):
        steps = first + APART * np.arange(TIMES)
        for signs in itertools.product((1.0, -1.0), repeat=TIMES):
            farthest = max(farthest, float(np.linalg.norm(matrix[:, steps] @ signs)))
    deviations = np.linalg.norm(np.tril(np.ones((N, N))) @ np.linalg.inv(matrix), axis=1)
    return farthest * float(np.linalg.norm(deviations, p))


@pytest.mark.parametrize(("p", "gap"), [(3.0, 1e-4), (6.0, 1e-3), (math.inf, 2e-3)])
def test_bounds_meet_and_the_strategy_has_the_upper_one(p, gap, tmp_path):
    participation = f"{TIMES},every={APART}"
    design = factorize(f"prefix:{N}", p=p, participation=participation, rel_gap=gap)
    assert design.certificate.gap <= gap
    assert value_by_force(design, p) == pytest.approx(design.certificate.upper, rel=1e-7)
    plain = factorize(f"prefix:{N}", participation=participation)
    assert design.certificate.upper < value_by_force(plain, p)
    # norm(std)_p lies between n^(1/p - 1/2) norm(std)_2 and norm(std)_2
    spread = N ** (0.5 - (0.0 if math.isinf(p) else 1 / p))
    assert plain.certificate.lower / spread <= design.certificate.upper <= plain.certificate.upper
    # no more than for one participation whose norm is twice as large, and no less than for one
    once = factorize(f"prefix:{N}", p=p)
    assert once.certificate.lower <= design.certificate.upper
    assert design.certificate.lower <= TIMES * once.certificate.upper
    write_strategy(tmp_path / "s.npz", design)
    assert verify_file(tmp_path / "s.npz").holds


def test_strategies_that_were_found_otherwise_are_not_below_the_lower_bound():
    design = factorize(f"prefix:{N}", p=math.inf, participation="2,every=10", rel_gap=1e-2)
    sums, random = np.tril(np.ones((N, N))), np.random.default_rng(0)
    for _ in range(50):
        c = np.cumprod(1 - random.uniform(0.2, 0.9) / np.arange(1, N))
        matrix = sum(np.diag(np.full(N - k, x), -k) for k, x in enumerate([1.0, *c]))
        matrix = matrix * random.uniform(0.9, 1.1, N)
        farthest = max(
            np.linalg.norm(matrix[:, s] + matrix[:, s + APART]) for s in range(N - APART)
        )
        widest = np.linalg.norm(sums @ np.linalg.inv(matrix), axis=1).max()
        assert farthest * widest >= design.certificate.lower


def test_too_many_steps_are_refused():
    with pytest.raises(InvalidInputError, match="for up to 2048 steps, got 3000; take p = 2"):
        factorize("prefix:3000", p=math.inf, participation="4,every=750")


@pytest.mark.parametrize(
    ("name", "p", "participation"),
    [
        ("sgd:12,0.9", math.inf, "2,every=6"),
        ("prefix:12", 4.0, "2,min-sep=4"),
        ("prefix:24", 2.0, "3,min-sep=8"),
    ],
)
def test_ctrl_c_in_one_stage_ends_those_that_would_follow(name, p, participation):
    """At p > 2 each weighting of the queries was designed all the same."""
    calls = itertools.count(1)

    def interrupt(_step):
        number = next(calls)
        assert number <= 3
        if number == 3:
            raise KeyboardInterrupt

    design = factorize(name, p=p, participation=participation, callback=interrupt)
    assert design.status is Status.INTERRUPTED
    assert design.certificate.lower <= design.certificate.upper
