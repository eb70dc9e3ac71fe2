"""All people of small schemas: no two neighbours are farther apart than the sensitivity."""

import itertools
import math
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import (
    PersonRows,
    Strategy,
    as_participation,
    product_strategy,
    with_participation,
)
from pmldesign.verifier import Persons

SCHEMAS = [(1, 1, 1), (1, 2, 1), (1, 3, 1), (2, 2, 1), (1, 2, 2), (2, 2, 2), (1, 4, 2), (1, 2, 4)]
SCHEMAS += [(1, 8, 1), (8, 1, 1), (2, 1, 3), (1, 3, 2), (2, 3, 1)]
"""B x Y x C: up to 8 cells, Y values of an attribute of which a person may have one row each."""
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}
DISTANCES = {"l1": "cityblock", "l2": "euclidean", "linf": "chebyshev"}
KINDS = ("normal", "identity", "ones", "total", "prefix", "zero columns", "equal columns", "whole")


@cache
def people(sizes, times, one_per):
    """Every person with up to k rows, shape (n, N), from the definition."""
    before, classes, after = sizes
    cells = before * classes * after
    found = []
    for count in range(times + 1):
        for rows in combinations_with_replacement(range(cells), count):
            kind = {"any": range(count), "cell": rows}.get(one_per)
            kind = [row // after % classes for row in rows] if kind is None else kind
            if len(set(kind)) == count:
                found.append(np.bincount(rows, minlength=cells) if rows else np.zeros(cells))
    return np.array(found, dtype=float).T


def farthest(matrix, sizes, times, one_per, relation, norm):
    every = matrix @ people(sizes, times, one_per)
    if relation == "add-remove":
        return np.linalg.norm(every, ord=ORDERS[norm], axis=0).max()
    full = people(sizes, times, one_per).sum(axis=0) == times
    return pdist(every[:, full].T, DISTANCES[norm]).max(initial=0.0)


def random_matrix(rng, kind, cells):
    rows = int(rng.integers(1, 7))
    matrix = rng.normal(size=(rows, cells))
    if kind == "identity":
        matrix = np.diag(rng.uniform(0.5, 2, cells))
    elif kind == "ones":
        matrix = np.eye(cells)
    elif kind == "total":
        matrix = np.ones((1, cells))
    elif kind == "prefix":
        matrix = np.tril(np.ones((cells, cells)))
    elif kind == "zero columns":
        matrix[:, rng.random(cells) < 0.5] = 0.0
    elif kind == "equal columns":
        matrix = matrix[:, rng.integers(0, max(1, cells // 2), cells)]
    elif kind == "whole":
        matrix = rng.integers(-1, 2, (rows, cells)).astype(float)
    return matrix if matrix.any() else np.ones((1, cells))


@pytest.mark.parametrize("sizes", SCHEMAS)
@pytest.mark.parametrize("one_per", ["any", "cell", "class"])
def test_no_person_moves_measurements_farther_than_the_sensitivity(sizes, one_per):
    rng = np.random.default_rng([*sizes, len(one_per)])
    for kind in KINDS:
        for times in range(1, 5):
            matrix = random_matrix(rng, kind, math.prod(sizes))
            rows = PersonRows(times, sizes if one_per == "class" else one_per)
            measured = with_participation(Strategy(kind, matrix), rows)
            for relation in Neighbours:
                for norm in ORDERS:
                    told = measured.sensitivity_under(relation, norm)
                    found = farthest(matrix, sizes, times, one_per, relation, norm)
                    assert found <= told * (1 + 1e-12)
                    if one_per == "any" or (times == 1 and relation == "add-remove"):
                        assert told == pytest.approx(found, rel=1e-9, abs=1e-12)


SEVERAL = [(1, 2, 1, 2, 1), (2, 2, 1, 2, 1), (1, 2, 2, 2, 1), (1, 3, 1, 1, 2), (1, 1, 3)]
"""Sizes of which every second one tells classes."""
METRICS = {"l1": "cityblock", "l2": "euclidean", "linf": "chebyshev"}


def classes_of(sizes):
    """The class of each cell, from the definition."""
    places = np.indices(sizes).reshape(len(sizes), -1)
    return [tuple(column[1::2]) for column in places.T]


@pytest.mark.parametrize("sizes", [*SCHEMAS, *SEVERAL])
@pytest.mark.parametrize("times", range(1, 5))
def test_people_in_classes_of_several_attributes_and_without_some_cells(sizes, times):
    """By all sets of rows in different classes, and all pairs of these."""
    rng = np.random.default_rng([*sizes, times])
    for kind in KINDS:
        cells = math.prod(sizes)
        without = sorted(rng.choice(cells, int(rng.integers(0, cells)), replace=False).tolist())
        labels = [c for cell, c in enumerate(classes_of(sizes)) if cell not in without]
        rows = PersonRows(times, sizes, tuple(without))
        assert as_participation(str(rows)) == rows
        matrix = random_matrix(rng, kind, len(labels))
        measured = with_participation(Strategy(kind, matrix), rows)
        most = min(times, len(set(labels)))
        people = [
            np.bincount(chosen, minlength=len(labels)) if chosen else np.zeros(len(labels))
            for count in range(most + 1)
            for chosen in itertools.combinations(range(len(labels)), count)
            if len({labels[cell] for cell in chosen}) == count
        ]
        images = matrix @ np.array(people).T
        full = images[:, np.sum(people, axis=1) == most].T
        for norm, order in ORDERS.items():
            found = np.linalg.norm(images, ord=order, axis=0).max()
            told = measured.sensitivity_under(Neighbours.ADD_REMOVE, norm)
            assert found <= told * (1 + 1e-12)
            if most == 1:
                assert told == pytest.approx(found, rel=1e-9, abs=1e-12)
            assert found <= verified(rows, matrix, norm, replaced=False) * (1 + 1e-12)
            apart = pdist(full, METRICS[norm]).max(initial=0.0)
            assert apart <= measured.sensitivity_under(Neighbours.REPLACE, norm) * (1 + 1e-12)
            assert apart <= verified(rows, matrix, norm, replaced=True) * (1 + 1e-12)


def verified(rows, matrix, norm, *, replaced):
    """What verification says of it."""
    return Persons.of(str(rows)).distance(matrix, norm, replaced=replaced)


@pytest.mark.parametrize(
    "text",
    [
        "3,any,without=1",
        "2,one-per=1x2x2,without=3-2",
        "2,one-per=1x2x2,without=4",
        "2,one-per=1x2x2,without=1+1",
        "2,one-per=2x2",
        "2,one-per=1x2x2,without=-",
    ],
)
def test_participations_that_are_none(text):
    with pytest.raises(InvalidInputError):
        as_participation(text)
    assert Persons.of(text) is None


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("one_per", ["any", "cell", "class"])
def test_products_are_measured_by_their_factors(monkeypatch, one_per, relation):
    rng = np.random.default_rng(5)
    for sizes in [(2, 2, 2), (1, 4, 2), (1, 2, 4), (2, 1, 4)]:
        for times in (2, 3):
            factors = [rng.normal(size=(3, size)) for size in sizes]
            product = product_strategy([Strategy("factor", factor) for factor in factors])
            rows = PersonRows(times, sizes if one_per == "class" else one_per)
            found = farthest(product.matrix, sizes, times, one_per, relation, "l2")
            monkeypatch.setattr("pmldesign.strategies.base.WRITTEN_CELLS", 4)
            told = with_participation(product, rows).sensitivity_under(relation, "l2")
            monkeypatch.undo()
            assert found <= told * (1 + 1e-12)


def test_closed_forms():
    counts = Strategy("counts", np.eye(30))
    for text, square in [("4,any", 16), ("4,one-per=cell", 4), ("5,one-per=1x5x6", 5)]:
        measured = with_participation(counts, as_participation(text))
        assert measured.sensitivity_under(Neighbours.ADD_REMOVE, "l2") ** 2 == pytest.approx(square)
        apart = measured.sensitivity_under(Neighbours.REPLACE, "l2") ** 2
        assert apart == pytest.approx(2 * square, rel=1e-9)
        assert measured.sensitivity_under(Neighbours.ADD_REMOVE, "l1") == pytest.approx(
            as_participation(text).times
        )
    # of 5 years and 10^6 others, never written out: running sums over the years
    years, others = np.tril(np.ones((5, 5))), [Strategy("others", np.eye(100))] * 3
    panel = product_strategy([Strategy("years", years), *others])
    rows = as_participation("5,one-per=1x5x1000000")
    gram = years.T @ years
    told = with_participation(panel, rows).sensitivity_under(Neighbours.ADD_REMOVE, "l2")
    assert told**2 == pytest.approx(gram.sum(), rel=1e-9)
    cells = with_participation(panel, as_participation("3,one-per=cell"))
    assert cells.sensitivity_under(Neighbours.ADD_REMOVE, "l2") < 3 * math.sqrt(5)


def test_texts_are_read_and_written_alike():
    for text in ("3,any", "3,one-per=cell", "5,one-per=1x5x6", "16,every=64"):
        assert str(as_participation(text)) == text
    assert as_participation(" 3 , one-per = cell") == PersonRows(3, "cell")
    for text in ("0,any", "3,one-per=year", "3,one-per=0x2x2", "3", "any", "-3,any"):
        with pytest.raises(InvalidInputError):
            as_participation(text)
    measured = with_participation(Strategy("s", np.eye(31)), PersonRows(5, (1, 5, 6)))
    with pytest.raises(InvalidInputError, match="for 30 cells, here are 31"):
        measured.sensitivity_under(Neighbours.ADD_REMOVE, "l2")


def test_leakage_is_about_single_records():
    measured = with_participation(Strategy("counts", np.eye(4)), PersonRows(2))
    with pytest.raises(InvalidInputError, match="rows_per_person must be 1 under PML, got 2"):
        pml.calibrate(measured, pml.PML(1.0, 0.1), noise="laplace")
