"""Where several methods answer one question the better bound of either side is kept."""

import json

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, factorize, question, solve_tables
from pmldesign.designs import structured as structured_designs
from pmldesign.files import write_strategy
from pmldesign.strategies import ProductStrategy, TablesStrategy
from pmldesign.verifier import KEY, digest_of, read_archive
from pmldesign.workloads import as_workload, products_over

CASES = [
    ("prefix:6*total:5+total:6*prefix:5+histogram:6*prefix:5", 4.0, ProductStrategy, False),
    ("prefix:6*prefix:5+histogram:6*total:5", 2.0, TablesStrategy, True),
]


@pytest.fixture
def structured(monkeypatch):
    monkeypatch.setattr("pmldesign.designs.dispatch.DENSE_CELLS", 1)
    monkeypatch.setattr(structured_designs, "LOOSE", 0.0)


@pytest.mark.usefixtures("structured")
@pytest.mark.parametrize(("text", "p", "strategy", "of_cells"), CASES)
def test_a_union_has_the_better_bound_of_either_method(text, p, strategy, of_cells):
    """Each case takes its strategy from one method; the weights are those of the larger bound."""
    workload, options = as_workload(text), DesignOptions(max_steps=200)
    asked = question(workload)
    tables = solve_tables(workload, asked, p, options)
    parts = products_over(workload, asked.sizes)
    products = structured_designs._solve_products(workload, parts, p, options)
    found = factorize(text, p=p, max_steps=200)
    assert found.certificate.lower == max(tables.certificate.lower, products.certificate.lower)
    assert found.certificate.upper == min(tables.certificate.upper, products.certificate.upper)
    assert isinstance(found.strategy, strategy)
    assert (found.dual_w.size == workload.shape[1]) is of_cells
    exact = factorize(workload.to_dense(), p=p).certificate
    assert found.certificate.lower <= exact.upper
    assert exact.lower <= found.certificate.upper
    L = found.reconstruction()
    assert np.linalg.norm(np.linalg.norm(L, axis=1), ord=p) <= found.certificate.upper


@pytest.mark.usefixtures("structured")
@pytest.mark.parametrize(("text", "p", "strategy", "of_cells"), CASES)
def test_its_file_proves_both_bounds(text, p, strategy, of_cells, tmp_path, monkeypatch):
    """Verification tells from the weights whose they are, whatever the strategy is made of."""
    design = factorize(text, p=p, max_steps=200)
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 1)
    monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 10)
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 1)
    path = tmp_path / "joined.npz"
    write_strategy(path, design, mechanism=pml.mechanism(design, guarantee=pml.ZCDP(0.5)))
    checked = pml.verify(path)
    assert checked.holds, checked.failures
    assert not checked.unchecked
    verdicts = {check.name: check.verdict for check in checked.checks}
    assert verdicts["lower"] == verdicts["upper"] == "holds"
    header, arrays = read_archive(path)
    header["lower"] *= 1.001
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert {check.name for check in pml.verify(path).failures} == {"lower"}


def test_a_joined_design_is_optimal_where_the_bounds_meet():
    options = DesignOptions(rel_gap=1e-3)
    loose = factorize("prefix:16", max_steps=1, rel_gap=1e-9)
    close = factorize("prefix:16", rel_gap=1e-6)
    for joined in (loose.join(close, options), close.join(loose, options)):
        assert joined.certificate == loose.certificate.join(close.certificate)
        assert joined.status.name == "OPTIMAL"
        assert joined.steps == loose.steps + close.steps
        np.testing.assert_array_equal(joined.strategy.matrix, close.strategy.matrix)
