"""Releases of tables together in coordinates, against their matrices written out."""

import numpy as np
import polars as pl
import pytest

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema
from pmldesign.releases.measured import several

CONTENT = {
    "attributes": [
        {"name": "a", "keys": list("xyz"), "ordered": True},
        {"name": "b", "keys": list("pq")},
        {"name": "c", "cuts": [0, 1, 2, 3, 4]},
        {"name": "one", "keys": ["k"]},
    ]
}
GAUSSIAN, LAPLACE = pml.ApproxDP(1, 1e-6), pml.PureDP(0.5)
REPLACE = pml.ApproxDP(1, 1e-6, "replace")
PAIRS = {
    "tables": (("a*b", GAUSSIAN), ("b*c + a", GAUSSIAN)),
    "laplace": (("a*b + c", GAUSSIAN), ("c:prefix + b", LAPLACE)),
    "mixed ways": (("a + a:prefix*b", LAPLACE), ("2*b*c + total", LAPLACE)),
    "replace": (("a*b", REPLACE), ("b*c:all-range", REPLACE)),
    "whole": (("a*b*c*one", GAUSSIAN), ("a", GAUSSIAN)),
}
FURTHER = ["a + b", "b:total + c:total", "a", "b", "c"]


def written(pair, folder, content):
    rng, paths = np.random.default_rng(1), []
    columns = {"a": list("xyz"), "b": list("pq"), "c": range(4), "one": ["k"]}
    drawn = {n: [v[j] for j in rng.integers(len(v), size=50)] for n, v in columns.items()}
    for number, (text, guarantee) in enumerate(PAIRS[pair]):
        noise = "laplace" if isinstance(guarantee, pml.PureDP) else "gaussian"
        queries = pml.workload(text, schema=content)
        design = pml.factorize(queries, neighbours=guarantee.neighbours)
        made = pml.mechanism(design, queries, guarantee=guarantee, noise=noise)
        paths.append(folder / f"{number}.npz")
        made.release(pl.DataFrame(drawn), schema=content).measurements.save(paths[-1])
    return paths


@pytest.mark.parametrize("pair", PAIRS)
def test_coordinates_tell_what_matrices_tell(pair, tmp_path, monkeypatch):
    paths = written(pair, tmp_path, CONTENT)
    held = pml.read(*paths, schema=CONTENT)
    monkeypatch.setattr(several, "MOST_CELLS", 1)
    found = pml.read(*paths, schema=CONTENT)
    assert found.strategy.shape == held.strategy.shape
    x = np.random.default_rng(3).normal(size=(24, 3))
    assert found.strategy.measure(x) == pytest.approx(held.strategy.measure(x), abs=1e-12)
    assert found.strategy.estimate(found.values) == pytest.approx(
        held.strategy.estimate(held.values), abs=1e-8
    )
    assert found.strategy.rank == held.strategy.rank
    for text in FURTHER:
        try:
            table = held.ask(text, schema=CONTENT).table
        except InvalidInputError:
            with pytest.raises(InvalidInputError, match="determined"):
                found.ask(text, schema=CONTENT)
            continue
        again = found.ask(text, schema=CONTENT).table
        assert again.estimate == pytest.approx(table.estimate, abs=1e-3)
        assert again.standard_deviation == pytest.approx(table.standard_deviation, rel=1e-8)
        assert again.upper - again.lower == pytest.approx(table.upper - table.lower, abs=1e-3)


def test_what_releases_of_many_cells_do_not_determine_is_said(tmp_path, monkeypatch):
    paths = written("tables", tmp_path, CONTENT)
    monkeypatch.setattr(several, "MOST_CELLS", 1)
    monkeypatch.setattr("pmldesign.releases.measured.questions.MAX_ENTRIES", 1)
    found = pml.read(*paths, schema=CONTENT)
    with pytest.raises(InvalidInputError, match=r"cannot answer .* it determines a \+ c$"):
        found.ask("a*c", schema=CONTENT)


def test_releases_that_coordinates_do_not_tell_are_refused(tmp_path, monkeypatch):
    paths = written("tables", tmp_path, CONTENT)
    monkeypatch.setattr(several, "MOST_CELLS", 1)
    with pytest.raises(InvalidInputError, match="pass `schema`"):
        pml.read(*paths)
    monkeypatch.setattr(several, "MOST_COORDINATES", 13)  # 1 + 2 + 1 + 2 + 3 + 3 and one, 12
    pml.read(*paths, schema=CONTENT)
    monkeypatch.setattr(several, "MOST_COORDINATES", 11)
    with pytest.raises(InvalidInputError, match="at most"):
        pml.read(*paths, schema=CONTENT)


def test_a_strategy_that_measures_more_than_its_tables_is_noticed(tmp_path, monkeypatch):
    schema, path = as_schema(CONTENT), tmp_path / "cells.npz"
    queries = pml.workload("a*b", schema=schema)
    whole = pml.mechanism("identity", pml.workload("a*b*c", schema=schema), guarantee=GAUSSIAN)
    made = pml.mechanism(whole.strategy, queries, guarantee=GAUSSIAN, noise="gaussian")
    people = pl.DataFrame({"a": ["x"], "b": ["p"], "c": [1], "one": ["k"]})
    made.release(people, schema=schema).measurements.save(path)
    other = written("tables", tmp_path, CONTENT)[0]
    monkeypatch.setattr(several, "MOST_CELLS", 1)
    with pytest.raises(InvalidInputError, match="ask each of them"):
        pml.read(path, other, schema=schema)
