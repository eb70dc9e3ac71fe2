"""Honest files hold: every noise, guarantee, relation, participation and public answer at once."""

from itertools import product

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.files import read_guarantee, read_strategy, strategies
from pmldesign.privacy import Noise
from pmldesign.strategies import Strategy, as_participation, product_strategy, with_participation

QUERIES, PARTITION = "prefix:4", "histogram:2*total:2"
NOISES = ["gaussian", "laplace", "cube"]
DP = [pml.PureDP(1.0), pml.ApproxDP(1.0, 1e-6, "replace"), pml.ZCDP(0.5)]
GUARANTEES = [*DP, pml.PML(1.0, 0.1), pml.ApproxPML(1.0, 0.01, 0.1)]
PARTICIPATIONS = [None, "2,every=2", "2,any", "2,one-per=cell"]


@pytest.mark.sweep
@pytest.mark.parametrize("known", [None, PARTITION])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_designs_with_other_noise_hold_and_are_released(tmp_path, neighbours, known):
    design, path, count = pml.factorize(QUERIES, neighbours=neighbours), tmp_path / "s.npz", 0
    for noise, guarantee, participation in product(NOISES, GUARANTEES, PARTICIPATIONS):
        people = {"participation": participation, "known": known}
        try:
            noisy = pml.mechanism(design, guarantee=guarantee, noise=noise, **people)
        except pml.PmldesignError:
            continue  # no such noise meets it, or it speaks of other people
        pml.write(path, design, mechanism=noisy)
        result = pml.verify(path)
        assert result.holds, (noise, guarantee, people, result.failures or result.unchecked)
        held, read = read_guarantee(path), read_strategy(path)
        assert held == noisy.guarantee
        if read.public.name:
            people["known"] = read.public
        again = pml.mechanism(read, QUERIES, guarantee=held, noise=noise, known=people["known"])
        assert again.scale == pytest.approx(noisy.scale, rel=1e-12)
        assert again.words == noisy.words
        if participation == "2,any" and noise != "laplace":
            released = pml.release(again, [5, 0, 2, 1])
            assert released.manifest["guarantee"]["words"] == noisy.words
        count += 1
    assert count >= 12


def test_bounds_are_in_the_file_of_the_people_that_they_are_about(tmp_path):
    design, path = pml.factorize(QUERIES), tmp_path / "s.npz"
    for guarantee, about in ((pml.PureDP(1.0), True), (pml.PML(1.0, 0.1), False)):
        pml.write(path, design, mechanism=pml.mechanism(design, guarantee=guarantee))
        claims = {check.name for check in pml.verify(path).checks}
        assert ({"lower", "upper"} <= claims) == about
    other = pml.mechanism(pml.factorize("all-range:4"), guarantee=pml.PureDP(1.0))
    pml.write(path, design, mechanism=other)
    assert pml.verify(path).holds
    assert strategies.read_question(path) == "all-range:4"


def test_dual_weights_of_factors_prove_the_bound_at_every_p(tmp_path, monkeypatch):
    monkeypatch.setattr(strategies, "WRITTEN_ENTRIES", 10)
    design = pml.factorize("prefix:3*prefix:2", p=3)
    noisy = pml.mechanism(design, guarantee=pml.PureDP(1.0), noise="laplace")
    pml.write(tmp_path / "s.npz", design, mechanism=noisy)
    assert pml.verify(tmp_path / "s.npz").holds


def test_cube_noise_for_all_rows_of_a_person_is_that_of_the_entries():
    parts = [np.array([[1.0, 2.0], [1.0, -1.0]]), np.array([[1.0, 0.5], [0.0, 3.0]])]
    measured = product_strategy([Strategy("factor", part) for part in parts])
    rows = with_participation(measured, as_participation("3,any"))
    assert rows.sensitivity_for(pml.Neighbours.ADD_REMOVE, Noise.CUBE) == pytest.approx(
        3 * np.abs(np.kron(*parts)).max(), rel=1e-12
    )
