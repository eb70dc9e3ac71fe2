"""Several releases are combined if they are about the same data, as far as their noise tells."""

import numpy as np
import pytest
from scipy import stats

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.releases import agreement_test

RNG = np.random.default_rng(12)


def released(counts, text="prefix:4", noise="laplace"):
    promise = pml.PureDP(1.0) if noise == "laplace" else pml.ApproxDP(1.0, 1e-6)
    made = pml.mechanism("identity", text, guarantee=promise, noise=noise)
    return made.release(counts).measurements


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_releases_about_different_data_are_refused(noise, tmp_path):
    one, other = [1000, 1000, 1000, 1000], [1250, 1250, 1250, 1250]
    paths = [tmp_path / f"{name}.npz" for name in ("one", "other", "again")]
    for path, x in zip(paths, (one, other, one), strict=True):
        released(x, noise=noise).save(path)
    with pytest.raises(InvalidInputError, match="different data: on the 4 answers that they have"):
        pml.read(*paths[:2])
    asked = pml.read(paths[0], paths[2]).ask("total:4")
    assert asked.table.estimate == pytest.approx([4000], abs=100)


def test_what_releases_do_not_share_is_not_compared():
    """x_1 of one data set and x_2 of another: no answer is common."""
    one, two = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    values = [np.array([5.0]), np.array([1e6])]
    assert agreement_test([one, two], values, [np.zeros(1)] * 2) == (1.0, 0)
    common = np.array([[1.0, 1.0], [1.0, -1.0]])
    p, degrees = agreement_test(
        [one, common], [np.array([0.0]), np.array([9.0, 9.0])], [np.zeros(1), np.zeros(2)]
    )
    # x_1 is 0 +- 1 and (9 + 9) / 2 = 9 +- 1 / 2^(1/2): 81 / 1.5 for one degree of freedom
    assert degrees == 1
    assert p == pytest.approx(stats.chi2.sf(54, 1), rel=1e-6)


@pytest.mark.parametrize(("kurtosis", "draw"), [(0.0, "normal"), (3.0, "laplace")])
@pytest.mark.parametrize("cells", [1, 6])
def test_equal_data_are_doubted_as_seldom_as_promised(kurtosis, draw, cells):
    scale = 1.0 if draw == "normal" else 0.5**0.5
    matrices = [np.eye(cells), 0.7 * np.tril(np.ones((cells, cells)))]
    x = RNG.integers(0, 1000, cells)
    kurtoses = [np.full(cells, kurtosis)] * 2
    found = []
    for _ in range(4000):
        noise = getattr(RNG, draw)(0, scale, (2, cells))
        values = [m @ x + n for m, n in zip(matrices, noise, strict=True)]
        found.append(agreement_test(matrices, values, kurtoses)[0])
    probabilities = np.array(found)
    for level in (0.5, 0.05, 0.001):
        share, spread = (probabilities < level).mean(), (level / 4000) ** 0.5
        assert share < level * (1 if draw == "normal" else 1.5) + 5 * spread
    assert (probabilities > 1e-6).all()
