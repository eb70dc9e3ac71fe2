"""Commands on workloads and strategies that are never written out."""

import json

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import dispatch as solving
from pmldesign.files import strategies
from pmldesign.strategies import ProductStrategy

LARGE = "prefix:64*prefix:64*histogram:256"
TABLES = "marginals:10^100,ways=2"
UNION = "prefix:6*histogram:4+total:6*histogram:4+histogram:6*prefix:4"
SMALL = "prefix:3*histogram:2+total:3*histogram:2+histogram:3*prefix:2"
ORDERED = "prefix:6*histogram:4+histogram:6*total:4"
DP = ["--epsilon", "1", "--delta", "1e-6"]
GAUSSIAN = [*DP, "--noise", "gaussian"]
REPLACE = ["--neighbours", "replace"]
BRIEFLY = ["--effort", "quick"]
EXIT_INPUT = 2


def refused(result, *words):
    assert result.exit_code == EXIT_INPUT, result.output
    assert "Traceback" not in result.output
    assert result.stderr.startswith("error: ")
    for word in words:
        assert word in result.stderr


@pytest.fixture
def structured(monkeypatch):
    """Every union is too large for one matrix, every product for a file of one."""
    monkeypatch.setattr(solving, "DENSE_CELLS", 1)
    monkeypatch.setattr("pmldesign.designs.structured.LOOSE", 0.0)
    monkeypatch.setattr(strategies, "WRITTEN_ENTRIES", 1)


def test_all_marginals_by_two_of_a_hundred_attributes(run):
    result = run("optimize", TABLES, *GAUSSIAN, "--output", "m.npz")
    assert result.exit_code == 0, result.stderr
    assert "495000 queries on 1.00e+100 cells" in result.stdout
    assert "optimal" in result.stdout
    made = run.json("optimize", TABLES, *GAUSSIAN)
    found = run.json("calibrate", "m.npz", *GAUSSIAN, "--workload", TABLES)
    design = next(row for row in made["strategies"] if row["name"] == "design")
    assert found["scale"] == pytest.approx(design["scale"], rel=1e-9)
    assert found["error"] == pytest.approx(design["error"], rel=1e-9)
    refused(run("calibrate", "m.npz", *DP), "401851 measurements", "give --workload")
    # without the total, the farthest cells are sqrt 2 times as far apart as a column is long
    replaced = run.json("calibrate", "m.npz", *GAUSSIAN, *REPLACE, "--workload", TABLES)
    assert replaced["scale"] == pytest.approx(2**0.5 * found["scale"], rel=0.02)


def test_a_product_of_a_million_cells(run):
    result = run("optimize", LARGE, *GAUSSIAN, "--output", "p.npz")
    assert result.exit_code == 0, result.stderr
    refused(run("calibrate", "p.npz", *DP), "1048576 measurements", "give --workload")
    found = run.json("calibrate", "p.npz", *GAUSSIAN, "--workload", LARGE)
    assert found["sensitivity"] == pytest.approx(1.0)
    with np.load("p.npz") as arrays:
        header = json.loads(str(arrays["header"]))
    assert found["error"] == pytest.approx(found["scale"] * header["upper"], rel=1e-6)
    assert found["scale"] == pytest.approx(header["scale"], rel=1e-12)


@pytest.mark.parametrize(("text", "status"), [(LARGE, "structured"), (TABLES, "optimal")])
def test_replace_neighbours_on_what_is_too_large_for_a_matrix(run, text, status):
    result = run("optimize", text, *GAUSSIAN, *REPLACE, "--output", "s.npz", "--json")
    assert result.exit_code == 0, result.stderr  # no gap was asked for
    made = json.loads(result.stdout)
    assert made["status"] == status
    assert made["norm"]["gap"] <= 5e-3
    design = next(row for row in made["strategies"] if row["name"] == "design")
    found = run.json("calibrate", "s.npz", *GAUSSIAN, *REPLACE, "--workload", text)
    assert found["scale"] == pytest.approx(design["scale"], rel=1e-9)
    assert found["error"] == pytest.approx(design["error"], rel=1e-9)
    # replacing is removing and adding; of many cells nearly all are at right angles
    plain = run.json("optimize", text, *GAUSSIAN)
    assert made["norm"]["lower"] <= 2 * plain["norm"]["upper"]
    assert made["norm"]["upper"] == pytest.approx(2**0.5 * plain["norm"]["lower"], rel=0.01)


@pytest.mark.sweep
@pytest.mark.parametrize("text", [LARGE, TABLES])
@pytest.mark.parametrize("failure", ["slack", "envelope"])
def test_pml_on_what_is_too_large_for_a_matrix(run, text, failure):
    pml = f"pml:1,delta=1e-6,alpha=1e-120,failure={failure}"
    options = ["--guarantee", pml, "--noise", "gaussian"]
    rows = run.json("compare", text, "--strategies", "least-norm", "--rel-gap", "0.01", *options)
    exact = run.json(
        "compare", text, "--strategies", "least-norm", "--rel-gap", "0.01", *GAUSSIAN, *REPLACE
    )
    scale, least = rows["strategies"][0]["scale"], exact["strategies"][0]["scale"]
    # differential privacy with next to no prior; the envelope speaks of every cell at once
    assert scale >= least * (1 - 1e-6)
    if failure == "slack":
        assert scale == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("text", [LARGE, TABLES])
def test_a_program_on_what_is_too_large_names_the_remedy(run, text):
    result = run("optimize", text, *GAUSSIAN, *REPLACE, "--method", "dual")
    refused(result, "method 'scaling'", "smaller workload")


def test_bounds_on_what_is_too_large_for_a_matrix(run):
    for text in (LARGE, TABLES):
        result = run("bounds", text, *DP, *REPLACE, "--rel-gap", "0.01")
        assert result.exit_code == 0, result.stderr


def test_compare_on_a_product(run):
    rows = {row["name"]: row for row in run.json("compare", "prefix:16*prefix:8")["strategies"]}
    dense = design_of_matrix(run, "prefix:16*prefix:8")
    assert rows["design"]["error"] == pytest.approx(dense, rel=1e-5)
    # each cell by itself: query (s, t) sums (s + 1)(t + 1) cells
    assert rows["identity"]["error"] == pytest.approx((136 * 36) ** 0.5, rel=1e-9)
    # the queries themselves: a cell is in all of them
    assert rows["workload"]["error"] == pytest.approx(128, rel=1e-9)
    assert min(row["error"] for row in rows.values()) == rows["design"]["error"]


def design_of_matrix(run, text):
    """The error of the design for the matrix written to a file."""
    assert run("workload", text, "--output", "a.npy").exit_code == 0
    rows = run.json("optimize", "a.npy")["strategies"]
    return next(row["error"] for row in rows if row["name"] == "design")


def test_a_union_in_a_product_basis(run, structured):
    result = run("optimize", SMALL, *GAUSSIAN, "--output", "u.npz")
    assert result.exit_code == 0, result.stderr
    assert "need not meet" in result.stdout
    asked = run("optimize", SMALL, *GAUSSIAN, "--rel-gap", "1e-6")
    assert (asked.exit_code, "need not meet" in asked.stderr) == (3, True)
    bounds = run("optimize", SMALL, *GAUSSIAN, "--rel-gap", "0.5")
    assert bounds.exit_code == 0, bounds.stderr
    header = json.loads(str(np.load("u.npz")["header"]))
    found = run.json("calibrate", "u.npz", *GAUSSIAN, "--workload", SMALL)
    assert found["error"] == pytest.approx(found["scale"] * header["upper"], rel=1e-6)
    dense = run.json("calibrate", "u.npz", *GAUSSIAN)  # small enough to be answered itself
    assert dense["scale"] == pytest.approx(found["scale"], rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": np.ones(5)}, "one weight for each of the 24 measurements"),
        ({"weights": None, "factor_1": None}, "both must have the same cells"),
        ({"factor_1": np.ones((4, 4))}, "depend on each other"),
        ({"factor_0": np.ones(3)}, "u.npz"),
    ],
)
def test_damaged_strategies_are_refused_without_a_traceback(run, structured, change, words):
    factors = [pml.strategy("identity", f"prefix:{n}") for n in (6, 4)]
    weighted = ProductStrategy("weighted", factors, weights=np.linspace(1, 2, 24))
    noisy = pml.mechanism(weighted, UNION, guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian")
    pml.write("u.npz", noisy)
    with np.load("u.npz") as arrays:
        kept = {**arrays, **change}
    np.savez("u.npz", **{name: value for name, value in kept.items() if value is not None})
    refused(run("calibrate", "u.npz", *DP, "--workload", UNION), words)


@pytest.mark.parametrize("p", ["2", "4", "inf"])
def test_a_union_with_one_ordered_attribute(run, structured, p):
    made = run.json("optimize", ORDERED, *GAUSSIAN, "--p", p, "--output", "b.npz")
    assert made["status"] == "optimal"
    assert made["norm"]["gap"] <= 1e-6
    with np.load("b.npz") as arrays:
        assert {"free", "combinations", "basis_0", "block_0", "block_1"} <= set(arrays)
    found = run.json("calibrate", "b.npz", *GAUSSIAN, "--workload", ORDERED, "--p", p)
    design = next(row for row in made["strategies"] if row["name"] == "design")
    assert found["error"] == pytest.approx(design["error"], rel=1e-9)
    dense = run.json("calibrate", "b.npz", *GAUSSIAN)  # small enough to be answered itself
    assert dense["scale"] == pytest.approx(found["scale"], rel=1e-9)
    assert run("workload", ORDERED, "--output", "a.npy").exit_code == 0
    matrix = run.json("calibrate", "b.npz", *GAUSSIAN, "--workload", "a.npy", "--p", p)
    assert matrix["error"] == pytest.approx(found["error"], rel=1e-9)
    for more in (["--epsilon", "1"], [*DP, *REPLACE], [*DP, "--alpha", "0.01"]):
        assert run("calibrate", "b.npz", *more, "--workload", ORDERED).exit_code == 0
    rows = run.json("compare", ORDERED, "--strategies", "b.npz,identity", *GAUSSIAN, "--p", p)
    assert rows["strategies"][0]["error"] == pytest.approx(found["error"], rel=1e-9)
    refused(run("calibrate", "b.npz", *DP, "--workload", "prefix:6*histogram:5"), "same cells")


def test_a_block_that_is_missing_is_named(run, structured):
    run("optimize", "prefix:6*total:4+histogram:6*total:4", "--output", "b.npz")
    words = "cannot answer row 0 (attribute 0 is 0", "add a query that covers it"
    refused(run("calibrate", "b.npz", *DP, "--workload", "histogram:6*prefix:4"), *words)


def test_a_damaged_strategy_of_blocks(run, structured):
    run("optimize", ORDERED, "--output", "b.npz")
    with np.load("b.npz") as arrays:
        kept = {**arrays, "combinations": np.array([0, 1, 2, 0])}
    np.savez("b.npz", **kept)
    refused(run("calibrate", "b.npz", *DP, "--workload", ORDERED), "one of its 2 blocks")


def test_a_damaged_strategy_of_marginals(run):
    run("optimize", "marginals:2,3,ways=1", "--output", "m.npz")
    with np.load("m.npz") as arrays:
        kept = {**arrays, "residuals": np.array([[7], [0], [1]])}
    np.savez("m.npz", **kept)
    refused(run("calibrate", "m.npz", *DP, "--workload", "marginals:2,3,ways=1"), "attributes (7,)")


@pytest.mark.parametrize("text", ["prefix:4+", "prefix:4+prefix:5", "prefix:4+*"])
def test_unions_that_do_not_parse(run, text):
    refused(run("optimize", text), "")


def test_laplace_noise_at_p_4_on_large_marginals_names_the_way_out(run):
    result = run("optimize", "marginals:10^8,ways=2", "--epsilon", "1", "--p", "4", *BRIEFLY)
    refused(result, "take p = 2 or inf, or Gaussian noise")


@pytest.fixture
def unwritten(monkeypatch):
    """No queries are written out, and no matrix is inverted as a whole."""
    for room in ("queries", "written_queries"):
        monkeypatch.setattr(f"pmldesign.strategies.baselines.{room}.as_matrix", None)
    monkeypatch.setattr("pmldesign.strategies.base.inverted", None)


def test_queries_on_attributes_are_measured_by_their_structure(run, unwritten):
    # a record is in 10 tables of three out of five attributes, and each answer is its measurement
    found = run.json("calibrate", "marginals:8,3,6,11,10,ways=3", "--epsilon", 2, "--p", "inf")
    assert found["sensitivity"] == 10
    assert found["scale"] == 5
    assert found["max_std"] <= 5 * 2**0.5


def test_products_of_queries_are_measured_by_their_structure(run, monkeypatch):
    monkeypatch.setattr("pmldesign.workloads.terms.workload.TermsWorkload.to_dense", None)
    product = "prefix:90*prefix:70*total:3"
    found = run.json("calibrate", product, "--epsilon", 1, "--neighbours", "replace")
    assert found["sensitivity"] == 90 * 70 - 1  # the first cell is in all, the last in one
    assert found["max_std"] == pytest.approx(2**0.5 * found["scale"], rel=1e-9)
    shown = run.json("leakage", product, "--scale", 100, "--alpha", 1e-9)
    assert shown["dp"] == pytest.approx((90 * 70 - 1) / 100, rel=1e-12)
    assert shown["leakage_upper"] <= min(shown["dp"], 9 * np.log(10)) * (1 + 1e-9)


def test_cells_of_products_are_compared_in_pairs_without_a_matrix(monkeypatch):
    monkeypatch.setattr("pmldesign.workloads.terms.workload.TermsWorkload.to_dense", None)
    monkeypatch.setattr(ProductStrategy, "matrix", None)
    shown = pml.envelope.leakage(pml.workload("prefix:64*prefix:35"), scale=300.0, alpha=1e-4)
    # cell (i, j) is in (64 - i)(35 - j) queries, two cells in those of the later one of each
    i, j = np.divmod(np.arange(64 * 35), 35)
    later = (64 - np.maximum.outer(i, i)) * (35 - np.maximum.outer(j, j))
    apart = later.diagonal()[:, None] + later.diagonal() - 2 * later
    kept = 1e-4 * np.exp(-apart / 300).sum(axis=1)
    kept += (1 - 2240e-4) * np.exp(-apart.max(axis=1) / 300)
    assert shown["leakage_upper"] == pytest.approx(-np.log(kept.min()), rel=1e-9)
