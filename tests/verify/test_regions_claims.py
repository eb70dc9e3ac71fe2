"""`verify` on counts of regions: sweeps against matrices, files that hold and files that lie."""

import itertools

import numpy as np
import pytest
from forgery import Base, is_true, mutate, write
from hypothesis import given
from hypothesis import strategies as st
from test_structured_claims import rewrite

import pmldesign as pml
from pmldesign.designs import DesignOptions, solve_regions
from pmldesign.files import verify_file
from pmldesign.verifier import ReadTree, gamma, mass_of_pairs, read_archive
from pmldesign.workloads import RegionsWorkload
from pmldesign_solvers.trees import Tree

NUMBERS = ("upper", "lower", "scale", "error", "rmse", "max_std", "sensitivity", "achieved")
SHAPES = {
    "point": [-1],
    "chain": [-1, 0, 1, 2],
    "star": [-1, *[0] * 9],
    "comb": [-1, 0, 0, 2, 2, 4, 4, 6, 6],
    "chains below": [-1, 0, 0, 1, 2, 3, 4, 4],
}


def random_parents(rng, nodes):
    return [-1, *(int(rng.integers(max(0, i - 7), i)) for i in range(1, nodes))]


def case(seed, nodes):
    rng = np.random.default_rng(seed)
    return random_parents(rng, nodes), rng


TREES = st.builds(case, st.integers(0, 2**32 - 1), st.integers(1, 30))


def indicators(parents):
    leaves = [i for i in range(len(parents)) if i not in parents]
    rows = np.zeros((len(parents), len(leaves)))
    for cell, node in enumerate(leaves):
        while node >= 0:
            rows[node, cell] = 1
            node = parents[node]
    return rows


def cut(parents, rng):
    """Nodes that hold every leaf once, as flags."""
    nodes, tops = [0], np.zeros(len(parents), dtype=bool)
    for node in nodes:
        below = [i for i, parent in enumerate(parents) if parent == node]
        if below and rng.random() < 0.6:
            nodes += below
        else:
            tops[node] = True
    return tops


def compare(parents, rng):
    """All sweeps against the matrices, with values over twelve orders of magnitude."""
    tree, E = ReadTree(np.array(parents)), indicators(parents)
    nodes, n = E.shape
    leaf = E.sum(axis=1) == 1
    x = 10 ** rng.uniform(-6, 6, nodes) * rng.integers(0, 2, nodes)
    lowest = ~np.isin(np.arange(nodes), parents)
    x[lowest] = 10 ** rng.uniform(-6, 6, n)
    assert tree.told(x > 0)[lowest].all()
    columns = E * x[:, None]
    assert tree.longest(x) == pytest.approx(columns.sum(axis=0).max(), rel=1e-13)
    apart = [np.abs(a - b).sum() for a, b in itertools.combinations(columns.T, 2)]
    assert tree.farthest(x) == pytest.approx(max(apart, default=0.0), rel=1e-13)
    moderate = np.where(x > 0, 10 ** rng.uniform(-2, 2, nodes), 0.0)
    inverse = np.linalg.inv((E.T * moderate) @ E)
    variances = np.einsum("ij,jk,ik->i", E, inverse, E)
    np.testing.assert_allclose(tree.variances(moderate), variances, rtol=1e-9)
    alpha, w = rng.uniform(0, 1, nodes) * rng.integers(0, 2, nodes), np.zeros(nodes)
    alpha[-1], w[lowest] = 1.0, rng.uniform(0.01, 1, n)
    M = np.sqrt(alpha)[:, None] * E * np.sqrt(w[lowest])
    exact = np.linalg.norm(M, "nuc")
    proved = tree.nuclear_norm(alpha, w)
    assert exact * (1 - 1e-9) <= proved <= exact * (1 + gamma(100 * n))
    tops = cut(parents, rng)
    sums = E[tops]
    same = (sums.T[:, None] == sums.T).all(axis=2)
    between = np.abs(columns.T[:, None] - columns.T).sum(axis=2)
    assert tree.farthest(x, tops=tops) == pytest.approx(between[same].max(), rel=1e-13)
    both = (E.T[:, None] * E.T) @ moderate  # what nodes above both add
    assert tree.farthest(x, moderate, tops) == pytest.approx((between + both)[same].max())
    known = (E @ sums.T > 0).any(axis=1) & ((sums.sum(axis=1) == E @ sums.T).any(axis=1))
    covariances = E @ inverse @ sums.T
    among = np.linalg.inv(sums @ inverse @ sums.T)
    told = variances - np.einsum("ij,jk,ik->i", covariances, among, covariances)
    np.testing.assert_allclose(tree.variances(moderate, known), told, rtol=1e-7, atol=1e-9)
    unknown = np.where(known, 0.0, alpha)
    groups = sums * np.sqrt(w[lowest])
    M = np.sqrt(unknown)[:, None] * E * np.sqrt(w[lowest])
    M -= M @ groups.T @ (groups / (groups**2).sum(axis=1)[:, None])
    exact = np.linalg.norm(M, "nuc")
    if unknown.any():
        proved = tree.nuclear_norm(unknown, w, tops)
        assert exact * (1 - 1e-8) - 1e-12 <= proved <= exact * (1 + gamma(100 * n)) + 1e-12
    mass = mass_of_pairs(tree, w / w.sum(), tops)
    pairs = np.outer(w[lowest], w[lowest]) / w.sum() * same
    pairs /= (same @ w[lowest])[:, None]
    assert mass == pytest.approx((pairs.sum() - np.trace(pairs)) / 2, abs=1e-12)
    assert tree.told(leaf)[lowest].all()  # a node of one cell stands for it


@given(TREES)
def test_sweeps_are_their_matrices(drawn):
    compare(*drawn)


@pytest.mark.parametrize("shape", SHAPES)
def test_sweeps_on_degenerate_trees(shape):
    for seed in range(5):
        compare(SHAPES[shape], np.random.default_rng(seed))


def test_one_part_may_dominate_its_family():
    """What others have is not lost in the difference, from the values written out."""
    tree = ReadTree(np.array([-1, 0, 0, 0]))
    small = 2.0**-60
    sums = tree.variances(np.array([1.0, small, 1.0, 1.0]))
    # with the total counted: 1/v + 1/(1 + 2) for the first part, whose own count tells nothing
    assert sums[1] == pytest.approx(3.0, rel=1e-12)
    assert sums[2] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("parents", [[-1, 2, 0], [-1, -1, 0], [0, 0], [-1, 1]])
def test_what_is_no_tree_is_refused(parents):
    with pytest.raises(ValueError, match=r"parents|root"):
        ReadTree(np.array(parents))


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    path = tmp_path_factory.mktemp("places") / "places.csv"
    rng = np.random.default_rng(5)
    lines = [f"{s},{s}-{c},{t}" for t, (s, c) in enumerate(rng.integers(0, 4, (22, 2)))]
    path.write_text("\n".join(["state,county,tract", *lines]) + "\n")
    return f"regions:{path},county=2"


CASES = {
    "p=3": (3.0, "add-remove", pml.ZCDP(0.1), "gaussian"),
    "replace": (np.inf, "replace", pml.ApproxDP(1, 1e-6, "replace"), "gaussian"),
    "laplace": (2.0, "add-remove", pml.PureDP(1), "laplace"),
}


@pytest.fixture(scope="module", params=CASES)
def honest(request, places, tmp_path_factory):
    p, neighbours, guarantee, noise = CASES[request.param]
    path = tmp_path_factory.mktemp("regions") / "s.npz"
    workload = pml.workload(places)
    design = solve_regions(workload, p, DesignOptions(neighbours=neighbours, rel_gap=1e-3))
    noisy = pml.mechanism(design, guarantee=guarantee, noise=noise)
    pml.write(path, design, mechanism=noisy)
    return path, *read_archive(path), noisy


def test_files_hold_with_the_numbers_of_the_matrices(honest):
    path, header, arrays, noisy = honest
    result = pml.verify(path)
    assert "parents" in arrays
    assert result.holds, (result.failures, result.unchecked)
    values = {check.name: check.computed for check in result.checks}
    R, A = noisy.strategy.matrix, noisy.workload.to_dense()
    order, replace = 1 if header["noise"] == "laplace" else 2, header["neighbours"] == "replace"
    if replace:
        A, R = A - A.mean(axis=1, keepdims=True), R - R.mean(axis=1, keepdims=True)
    lengths = [np.linalg.norm(a - b, order) for a, b in itertools.combinations(R.T, 2)]
    longest = max(lengths) if replace else np.linalg.norm(R, order, axis=0).max()
    roots = np.linalg.norm(A @ np.linalg.pinv(R, rcond=1e-11), axis=1)
    factor = np.sqrt(2) if header["noise"] == "laplace" else 1
    assert values["max_std"] == pytest.approx(factor * noisy.scale * roots.max(), rel=1e-7)
    assert values["sensitivity"] == pytest.approx(longest, rel=1e-7)


def test_altered_numbers_and_arrays_are_found(honest):
    path, header, arrays, _ = honest
    other = path.with_name("altered.npz")
    for name, factor in itertools.product(NUMBERS, (0.999, 1.001)):
        rewrite(other, {**header, name: header[name] * factor}, arrays)
        assert not pml.verify(other).holds, name
    for name in ("node_weights", "dual_u", "dual_w"):
        changed = arrays[name].copy()
        changed.flat[np.argmax(changed)] *= 1.5
        rewrite(other, dict(header), {**arrays, name: changed})
        assert not pml.verify(other).holds, name
    parents = arrays["parents"].copy()
    parents[-1] = 0
    unmeasured = np.where(np.isin(np.arange(parents.size), parents), arrays["node_weights"], 0)
    for changed in ({"parents": parents}, {"node_weights": unmeasured}):
        rewrite(other, dict(header), {**arrays, **changed})
        assert pml.verify(other).failures, changed.keys()


@pytest.mark.parametrize("seed", range(2))
def test_no_false_file_passes(honest, places, seed):
    path, header, arrays, _ = honest
    base, rng = Base("strategy", header, arrays, places), np.random.default_rng(seed)
    forgeries = 0
    while forgeries < 15:
        forged = mutate(base, base, rng)
        if forged is None:
            continue
        forgeries += 1
        how, content, changed = forged
        target = path.with_name("forged.npz")
        write(target, content, changed)
        try:
            passes = pml.verify(target).holds
        except pml.FileError:
            continue
        assert not passes or is_true(base, base, content, changed, target), (how, content)


def test_weights_of_another_neighbourhood_prove_nothing(tmp_path):
    """A single total has norm 1 for records that are added, and 0 for those that are replaced."""
    one, many = tmp_path / "one.npz", tmp_path / "many.npz"
    pml.write(one, pml.factorize("prefix:4"))
    pml.write(many, pml.factorize("prefix:4", neighbours="replace"))
    (first, mine), (second, theirs) = read_archive(one), read_archive(many)
    for header, arrays, w in ((first, mine, np.ones((4, 4))), (second, theirs, np.ones(4))):
        rewrite(one, {**header, "lower": 0.0}, {**arrays, "dual_w": w})
        assert pml.verify(one).failures
    u = mine["dual_u"]
    F = np.linalg.cholesky(5 * np.eye(4) - np.ones((4, 4)))
    for header, arrays, half, weight in (
        (first, mine, F, 10.0),
        (second, theirs, np.eye(4), 4.0),
    ):
        lower = np.linalg.norm(np.sqrt(u)[:, None] * np.tri(4) @ half, "nuc") / weight**0.5
        w = np.ones(4) if half is not F else np.ones((4, 4))
        upper = max(header["upper"], lower)
        rewrite(one, {**header, "lower": lower, "upper": upper}, {**arrays, "dual_w": w})
        assert "lower" not in {c.name for c in pml.verify(one).checks if c.verdict == "holds"}


def test_known_sums_are_those_of_the_groups_of_the_file(tmp_path):
    """Files beside public counts hold; other groups, known answers and weights are found."""
    tree = Tree([-1, *[0] * 20, *(1 + np.arange(2100) % 20)])
    workload = RegionsWorkload("w", tree, np.ones(tree.nodes))
    known = workload.reweighted(tree.depths == 1)
    noisy = pml.optimize(
        workload, guarantee=pml.ZCDP(0.1), noise="gaussian", known=known, rel_gap=1e-3
    ).best
    path = tmp_path / "s.npz"
    pml.write(path, noisy)

    def verified(public=known):
        return verify_file(path, workload=workload, parse=lambda _: public)

    assert verified().holds
    assert pml.read(path).public.agrees(noisy.strategy.public)
    total = workload.reweighted(tree.depths == 0)
    assert verified(total).failures
    header, arrays = read_archive(path)
    merged = np.where(arrays["groups"] == 1, 0, arrays["groups"])
    merged = np.unique(merged, return_inverse=True)[1].astype(np.int64)
    changes = [{"groups": merged}, {"groups": arrays["groups"][[1, 0, *range(2, 2100)]]}]
    for change in [*changes, {"node_weights": arrays["node_weights"] * 1.01}]:
        rewrite(path, header, {**arrays, **change})
        assert verified().failures
