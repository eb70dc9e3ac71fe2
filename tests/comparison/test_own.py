"""Mechanisms of a researcher's own beside ours."""

import math

import numpy as np
import pytest

import pmldesign as pml


def laplace(guarantee, sensitivity):
    return 2 * (sensitivity / guarantee.epsilon) ** 2


def staircase(guarantee, sensitivity):
    """The noise of least variance for one query (Geng and Viswanath 2012)."""
    b = math.exp(-guarantee.epsilon)
    least = (2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2
    return sensitivity**2 * least


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("p", [2, math.inf])
def test_our_noise_as_your_own_has_our_row(relation, p):
    guarantee = pml.PureDP(0.7, relation)
    own = pml.OwnMechanism("mine", "tree", laplace)
    ours, mine = pml.compare(
        "prefix:8", strategies=["tree", own], guarantee=guarantee, p=p, noise="laplace"
    ).rows
    assert mine.noise == "own"
    assert mine.privacy is None
    assert mine.to_record()["satisfied_epsilon"] is None
    for name in ("error", "rmse", "max_std", "sensitivity", "norm"):
        assert getattr(mine, name) == pytest.approx(getattr(ours, name), rel=1e-12)


@pytest.mark.parametrize(("norm", "size"), [("l1", 3.0), ("l2", 5**0.5), ("linf", 2.0)])
def test_the_sensitivity_has_the_norm_asked_for(norm, size):
    seen = []
    own = pml.OwnMechanism(
        "mine", np.array([[2.0, 0], [1, 1]]), lambda *asked: seen.append(asked) or 1.0, norm
    )
    pml.compare("histogram:2", strategies=[own])
    assert seen[0][0] is None
    assert seen[0][1] == pytest.approx(size)


def test_better_noise_is_the_better_row_and_no_bound_is_beaten():
    guarantee = pml.PureDP(3)
    rows = pml.compare(
        "histogram:4",
        strategies=["design", pml.OwnMechanism("staircase", "identity", staircase)],
        guarantee=guarantee,
        noise="laplace",
    ).rows
    design, own = rows
    assert own.ratio == 1.0 < design.ratio
    assert own.error >= own.lower_bound * (1 - 1e-9)


def test_a_reconstruction_of_your_own_is_used_and_checked():
    # the total by the sum of the counts of four cells, and by the measured total: R = (1; I)
    R = np.vstack([np.ones((1, 4)), np.eye(4)])
    first, cells = np.array([[1.0, 0, 0, 0, 0]]), np.array([[0.0, 1, 1, 1, 1]])
    total = np.ones((1, 4))
    mine = [pml.OwnMechanism("mine", R, laplace, reconstruction=L) for L in (first, cells)]
    rows = pml.compare(total, strategies=[*mine, R], guarantee=pml.PureDP(1), noise="laplace").rows
    assert [row.error**2 for row in rows[:2]] == pytest.approx([8.0, 32.0])
    # least squares is the best: weights 4/5 and 1/5 of the two
    assert rows[2].error ** 2 == pytest.approx(8 * 4 / 5)
    wrong = pml.OwnMechanism("mine", R, laplace, reconstruction=2 * first)
    with pytest.raises(pml.InvalidInputError, match="must be the workload; an entry is 1 off"):
        pml.compare(total, strategies=[wrong], guarantee=pml.PureDP(1))


@pytest.mark.parametrize(
    ("own", "options", "words"),
    [
        (("mine", "identity", lambda *_: 0.0), {}, "variance of mine"),
        (("mine", "identity", lambda *_: math.nan), {}, "variance of mine"),
        (("mine", "identity", lambda *_: 1.0), {"p": 3}, "at p = 2 and inf only"),
        (("mine", "identity", lambda *_: 1.0), {"participation": "2,min-sep=2"}, "participation"),
        (("mine", "identity", laplace, "l1", np.eye(2)), {}, "shape"),
    ],
)
def test_what_cannot_be_compared_is_refused(own, options, words):
    with pytest.raises(pml.InvalidInputError, match=words):
        pml.compare(
            "prefix:4", strategies=[pml.OwnMechanism(*own)], guarantee=pml.PureDP(1), **options
        )


def test_arguments_are_checked():
    with pytest.raises(pml.InvalidInputError, match="norm must be one of l1, l2, linf"):
        pml.OwnMechanism("mine", "identity", laplace, "l3")
    with pytest.raises(pml.InvalidInputError, match="variance must be a function"):
        pml.OwnMechanism("mine", "identity", 2.0)
