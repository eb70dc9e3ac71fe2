import numpy as np
import pytest
from array_workload import ArrayWorkload, prefix, random_workload

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import BASELINES, Strategy, baseline, haar_wavelet, square_root, tree
from pmldesign.workloads import KroneckerWorkload, parse_workload

NAMES = [known.name for known in BASELINES]


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("name", [*NAMES, "tree:3", "weighted-tree:3"])
def test_every_baseline_answers_every_workload(name, cells):
    workload = random_workload(9, cells, seed=cells)
    strategy = baseline(name, workload)
    assert strategy.name == name
    L = strategy.reconstruction(workload)
    assert np.abs(L @ strategy.matrix - workload.to_dense()).max() < 1e-12
    assert np.allclose(strategy.variances(workload), (L**2).sum(axis=1), rtol=1e-11)


def test_names_are_those_of_the_documentation():
    assert [
        *("identity", "workload", "tree", "tree:best", "weighted-tree", "haar"),
        *("square-root", "eigen-design"),
    ] == NAMES
    assert all(known.description for known in BASELINES)


@pytest.mark.parametrize(
    ("name", "build"), [("tree", tree), ("haar", haar_wavelet), ("square-root", square_root)]
)
def test_products_are_built_factor_by_factor(name, build):
    factors = (prefix(3), KroneckerWorkload((prefix(2), prefix(4))))
    strategy = baseline(name, KroneckerWorkload(factors))
    expected = np.kron(build(3).matrix, np.kron(build(2).matrix, build(4).matrix))
    assert strategy.name == name
    assert np.array_equal(strategy.matrix, expected)
    # the flattened table would have another strategy
    assert strategy.shape != build(24).shape or name == "square-root"


@pytest.mark.parametrize("name", [*NAMES, "tree:3", "weighted-tree:3"])
def test_variances_multiply_on_products(name):
    # (R_1 x R_2)^+ = R_1^+ x R_2^+, for identity and A itself too
    factors = (prefix(3), random_workload(5, 4))
    product = KroneckerWorkload(factors)
    separate = [baseline(name, factor) for factor in factors]
    expected = np.kron(*[s.variances(f) for s, f in zip(separate, factors, strict=True)])
    joint = baseline(name, product)
    assert np.allclose(joint.variances(product), expected, rtol=1e-10)
    assert joint.sensitivity == pytest.approx(
        separate[0].sensitivity * separate[1].sensitivity, rel=1e-13
    )


def test_workload_baseline_of_a_product_is_its_matrix():
    product = KroneckerWorkload((prefix(3), random_workload(5, 4)))
    expected = np.kron(prefix(3).to_dense(), random_workload(5, 4).to_dense())
    assert np.allclose(baseline("workload", product).matrix, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "wavelet",
            r"eigen-design, tree:B, weighted-tree:B, banded:B or blt:K, got 'wavelet'$",
        ),
        ("harr", r"did you mean 'haar'\?"),
        ("Tree", r"did you mean 'tree'\?"),
        ("square_root", r"did you mean 'square-root'\?"),
        ("haar:2", r"got 'haar:2'; did you mean 'haar'\?"),
        ("", r"one of identity"),
        ("tree:1", r"tree:B needs a whole number B of at least 2, got 'tree:1'"),
        ("tree:", r"tree:B needs a whole number B"),
        ("tree:x", r"tree:B needs a whole number B"),
        ("tree:-2", r"tree:B needs a whole number B"),
        ("tree:²", r"tree:B needs a whole number B"),
        ("weighted-tree:1", r"weighted-tree:B needs a whole number B of at least 2"),
        ("weighted-tree:x", r"weighted-tree:B needs a whole number B .* try weighted-tree:4"),
        ("tree:" + "9" * 5000, r"tree:B needs a whole number B"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_one(name, message):
    with pytest.raises(InvalidInputError, match=message):
        baseline(name, prefix(4))


@pytest.mark.parametrize("name", [*NAMES, "tree:3", "weighted-tree:3"])
@pytest.mark.parametrize("workload", ["prefix:7", "all-range:6", "prefix:3*histogram:4"])
def test_structured_workloads_give_the_variances_of_their_matrix(name, workload):
    structured = parse_workload(workload)
    strategy = baseline(name, structured)
    matrix = structured.to_dense()
    inverse = np.linalg.lstsq(strategy.matrix, np.eye(strategy.shape[0]), rcond=None)[0]
    expected = ((matrix @ inverse) ** 2).sum(axis=1)
    assert np.allclose(strategy.variances(structured), expected, rtol=1e-10)


def test_refused_query_is_called_as_the_workload_calls_it():
    workload = parse_workload("prefix:4")
    label = workload.row_label(3)
    with pytest.raises(InvalidInputError) as refusal:
        Strategy("short", np.eye(4)[:3]).variances(workload)
    assert f"cannot answer {label}: it lies" in str(refusal.value)


@pytest.mark.parametrize("name", [*NAMES[1:], "tree:3", "weighted-tree:3"])
def test_what_does_not_fit_in_memory_is_refused_before_it_is_made(name):
    with pytest.raises(InvalidInputError, match=rf"strategy '{name}' as a matrix has .* entries"):
        baseline(name, parse_workload("window:60000,7"))


@pytest.mark.parametrize("name", [*NAMES, "tree:3", "weighted-tree:3"])
def test_products_are_never_written_out(name):
    # a million cells, 2^40 entries: the variances are the products of those of the factors
    workload = parse_workload("prefix:64*prefix:64*histogram:256")
    strategy = baseline(name, workload)
    alone = [baseline(name, factor).variances(factor) for factor in workload.factors]
    assert strategy.shape[1] == 2**20
    assert strategy.variances(workload)[-1] == pytest.approx(np.prod([v[-1] for v in alone]))
    with pytest.raises(InvalidInputError, match=rf"strategy '{name}' as a matrix has .* entries"):
        _ = strategy.matrix


def test_zero_workload_is_no_strategy():
    with pytest.raises(InvalidInputError, match="'workload' is zero"):
        baseline("workload", ArrayWorkload(np.zeros((2, 3))))


def test_the_identity_of_a_large_domain_asks_for_squares_that_are_at_hand():
    with pytest.raises(InvalidInputError, match="ever written out"):
        baseline("identity", parse_workload("at-most:10^8,ways=2"))
