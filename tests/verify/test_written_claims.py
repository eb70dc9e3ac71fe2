"""`verify` on every other form of file, from the matrix that it stands for."""

import json
import math
from itertools import combinations, product

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, question, solve_all_ranges, solve_tables
from pmldesign.files import form_for
from pmldesign.strategies import (
    BlockStrategy,
    IdentityAndRows,
    ProductStrategy,
    Strategy,
    WeightedTablesStrategy,
    as_participation,
    with_participation,
)
from pmldesign.verifier import (
    KEY,
    Checks,
    Pattern,
    Queries,
    Table,
    Verdict,
    centred,
    check_intervals,
    digest_of,
    form_of,
    read_archive,
)
from pmldesign.verifier.forms import unions
from pmldesign.verifier.streams import epochs, resolvents
from pmldesign.workloads import AllRangesWorkload

DP, REPLACE = pml.ApproxDP(1, 1e-6), pml.ApproxDP(1, 1e-6, "replace")
TABLES = "marginals:prefix5,2,prefix3,ways=2"


def designed(name, **options):
    return lambda: pml.factorize(name, **options)


def tables(p=2.0, **options):
    queries = pml.workload(TABLES)
    return lambda: solve_tables(queries, question(queries), p, DesignOptions(**options))


def blocks():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    parts = [Strategy("a", np.tri(4)), Strategy("b", rng.standard_normal((5, 4)))]
    return BlockStrategy("blocks", 1, [basis, np.eye(2)], [[0, 1], [1, 0], [1, 1]], parts)


def products():
    factors = [Strategy("a", np.tri(5)), Strategy("b", np.eye(4) + 0.3)]
    return ProductStrategy("product", factors, weights=np.linspace(1, 2, 20))


def weighted():
    designs = {0: np.vstack([np.eye(5), np.tri(5)[1::2]]) / 3, 2: np.eye(3) + 0.2}
    sets = [(0, 1), (0, 2), (1, 2)]
    return WeightedTablesStrategy("weighted", (5, 2, 3), sets, [0.5, 0.3, 0.2], designs)


def stream(participation):
    single = pml.factorize("prefix:20", buffers=4, rel_gap=0.1).strategy
    return with_participation(single, as_participation(participation))


def rows():
    return IdentityAndRows(
        "rows", np.linspace(0.5, 1, 8), [[0.1] * 8, [0, 0, 0, 0.4, 0.4, 0, 0, 0]]
    )


CASES = {
    "tables": (tables(max_steps=20), DP),
    "tables p=3": (tables(3.0, max_steps=20), DP),
    "tables replace": (tables(max_steps=20, neighbours="replace"), REPLACE),
    "stream": (lambda: stream("3,min-sep=6"), DP),
    "stream epochs": (lambda: stream("4,every=5"), DP),
    "recurrence": (designed("prefix:20", buffers=2, participation="3,min-sep=6"), DP),
    "marginals replace": (designed("marginals:3,4,2,ways=2", neighbours="replace"), REPLACE),
    "marginals laplace": (designed("marginals:3,4,2,ways=2"), pml.PureDP(1)),
    "blocks": (blocks, DP),
    "products": (products, DP),
    "rows": (rows, pml.PureDP(1)),
    "weighted": (weighted, pml.PureDP(1)),
    "weighted slack": (weighted, pml.ApproxPML(0.5, 1e-6, 0.03)),
}
QUERIES = {
    "blocks": "prefix:3*histogram:4*total:2+histogram:3*prefix:4*prefix:2",
    "products": "prefix:5*prefix:4",
    "rows": "prefix:8",
    "stream": "prefix:20",
    "weighted": TABLES,
}


def write(path, name):
    make, guarantee = CASES[name]
    strategy = make()
    if isinstance(strategy, pml.Design):
        noisy = pml.mechanism(strategy, guarantee=guarantee)
        pml.write(path, strategy, mechanism=noisy)
    else:
        noisy = pml.mechanism(strategy, QUERIES[name.split()[0]], guarantee=guarantee)
        pml.write(path, noisy)
    return noisy


@pytest.fixture(scope="module", params=CASES)
def honest(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "strategy.npz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 50)
        noisy = write(path, request.param)
    return path, *read_archive(path), noisy


def test_they_hold_and_nothing_is_left_out(honest):
    path, header, arrays, _ = honest
    assert "strategy" not in arrays
    result = pml.verify(path)
    assert result.holds, result.failures
    assert not result.unchecked
    assert {"sensitivity", "guarantee", "error"} <= {check.name for check in result.checks}
    if "lower" in header:
        assert {"lower", "upper"} <= {check.name for check in result.checks}


@pytest.mark.parametrize("name", ["blocks", "rows", "products"])
def test_large_ones_by_their_structure(tmp_path, monkeypatch, name):
    path = tmp_path / "strategy.npz"
    monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 50)
    noisy = write(path, name)
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 1)
    result = pml.verify(path)
    assert result.holds, result.failures
    assert not result.unchecked
    values = {check.name: check.computed for check in result.checks}
    assert values["rmse"] == pytest.approx(noisy.rmse, rel=1e-9)
    header, arrays = read_archive(path)
    for entry in ("basis_0", "block_1", "diagonal", "rows", "factor_0", "weights"):
        if entry in arrays:
            changed = arrays[entry].copy()
            changed[0] *= 1.2
            entries = {**arrays, entry: changed}
            forged = {**header, KEY: digest_of(header, entries)}
            np.savez(path, header=np.array(json.dumps(forged)), **entries)
            assert pml.verify(path).failures, entry


def test_all_intervals_by_recurrences():
    n = 30
    strategy = solve_all_ranges(
        AllRangesWorkload(n, name="all-range:30"), 2.0, DesignOptions()
    ).strategy
    A, X = pml.workload(f"all-range:{n}").to_dense(), strategy.matrix.T @ strategy.matrix
    error = math.sqrt(np.trace(A @ np.linalg.inv(X) @ A.T))
    header = {"p": 2.0, "neighbours": "add-remove", "noise": "gaussian", "scale": 3.0}
    header |= {"guarantee_numbers": {"kind": "zcdp", "rho": 1 / 18}, "error": 3 * error}
    header |= {"sensitivity": math.sqrt(X.diagonal().max()) * (1 + 1e-12)}
    queries = Queries(None, count=n * (n + 1) // 2)
    for name in (None, "sensitivity", "error", "scale"):
        checks, less = Checks(), {} if name is None else {name: header[name] * 0.999}
        check_intervals(
            {**header, **less}, form_for(strategy, large=False).write(strategy), queries, checks
        )
        verdicts = {check.verdict for check in checks.rows}
        assert (verdicts == {Verdict.HOLDS}) == (name is None), checks.rows


def test_a_product_basis_under_replace():
    strategy, factors = products(), [np.tri(5), np.tri(4)]
    noisy = pml.mechanism(strategy, "prefix:5*prefix:4", guarantee=REPLACE)
    arrays = {f"factor_{i}": part.matrix for i, part in enumerate(strategy.factors)}
    arrays["weights"] = strategy.weights
    header = {"p": 2.0, "neighbours": "replace", "noise": "gaussian", "scale": noisy.scale}
    header |= {"sensitivity": noisy.sensitivity, "guarantee_numbers": REPLACE.to_json()}
    header |= {"error": noisy.error(), "rmse": noisy.rmse, "max_std": noisy.max_std}
    queries = Queries(None, (5, 4), [Table(1.0, dict(enumerate(factors)))])
    for name in (None, "scale", "sensitivity", "rmse", "max_std"):
        checks = Checks()
        less = {} if name is None else {name: header[name] * 0.999}
        unions.check_product_basis({**header, **less}, arrays, queries, checks)
        verdicts = {check.verdict for check in checks.rows}
        assert (verdicts == {Verdict.HOLDS}) == (name is None), checks.rows


def test_a_product_basis_of_fewer_rows_than_cells():
    """The last two values of an attribute are never told apart, and measured together."""
    rng = np.random.default_rng(0)
    together = np.array([[1.0, 0, 0], [0, 1, 1]])
    A, R = [np.tri(4), np.array([[1.0, 1, 1], [2, 0, 0]])], [rng.normal(size=(4, 4)), together]
    weights = rng.uniform(0.5, 2, size=8)
    whole, asked = np.sqrt(weights)[:, None] * np.kron(*R), np.kron(*A)
    error = float(np.linalg.norm(asked @ np.linalg.pinv(whole, 1e-11)))
    longest = float(np.linalg.norm(whole, axis=0).max()) * (1 + 1e-12)
    arrays = {"factor_0": R[0], "factor_1": R[1], "weights": weights}
    header = {"p": 2.0, "neighbours": "add-remove", "noise": "gaussian", "scale": 3.0}
    header |= {"guarantee_numbers": {"kind": "zcdp", "rho": longest**2 / 18}}
    header |= {"error": 3 * error, "sensitivity": longest}
    queries = Queries(None, (4, 3), [Table(1.0, dict(enumerate(A)))])
    for name in (None, "sensitivity", "error", "scale"):
        checks, less = Checks(), {} if name is None else {name: header[name] * 0.999}
        unions.check_product_basis({**header, **less}, arrays, queries, checks)
        verdicts = {check.verdict for check in checks.rows}
        assert (verdicts == {Verdict.HOLDS}) == (name is None), checks.rows


def union(rng, alike):
    """A union of two products, weights of its queries and cells, and its matrix."""
    parts = [[np.tri(4), np.eye(3)], [np.ones((1, 4)), rng.random((5, 3))]]
    if alike:
        parts[1][1] = np.ones((1, 3))
    A = np.vstack([np.kron(*part) for part in parts])
    u = [np.outer(rng.random(len(a)), np.ones(len(b))) for a, b in parts]
    w = np.outer(rng.random(4), np.ones(3))
    if not alike:
        u, w = [rng.random(part.shape) for part in u], rng.random((4, 3))
    tables = [Table(1.0, dict(enumerate(part))) for part in parts]
    return Queries(None, (4, 3), tables), A, np.concatenate([part.ravel() for part in u]), w.ravel()


@pytest.mark.parametrize("p", [2.0, 3.0, np.inf])
@pytest.mark.parametrize("alike", [True, False])
def test_bounds_of_unions(p, alike):
    queries, A, u, w = union(np.random.default_rng(3), alike)
    arrays, shares = {"dual_u": u, "dual_w": w}, w / w.sum()
    norm = np.linalg.norm(u, np.inf if p == 2 else 1 if np.isinf(p) else p / (p - 2))
    scaled = np.sqrt(u)[:, None] * A
    f = np.linalg.norm(scaled * np.sqrt(shares), "nuc")
    header = {"p": p, "neighbours": "add-remove"}
    proved = float(unions.lower_bound(header, arrays, queries).lower())
    assert f * (1 - 1e-9) <= proved * np.sqrt(norm) <= f * (1 + 1e-10)
    root = scaled @ np.sqrt(np.diag(shares)) @ (np.eye(12) - np.outer(*[np.sqrt(shares)] * 2))
    pairs = np.linalg.norm(root, "nuc") / np.sqrt((1 - shares @ shares) / 2)
    header["neighbours"] = "replace"
    proved = float(unions.lower_bound(header, arrays, queries).lower())
    assert 0.5 * pairs <= proved * np.sqrt(norm) <= pairs


@pytest.mark.parametrize("p", [2.0, 3.0, np.inf])
def test_the_bound_of_a_single_part_of_a_union(p):
    rng = np.random.default_rng(4)
    queries, A, *_ = union(rng, alike=False)
    u, w = np.kron(rng.random(4), rng.random(3)), np.kron(rng.random(4), rng.random(3))
    norm = np.linalg.norm(u, np.inf if p == 2 else 1 if np.isinf(p) else p / (p - 2))
    scaled = np.sqrt(u)[:, None] * A[: u.size] * np.sqrt(w / w.sum())
    arrays = {"dual_u": np.append(u, np.zeros(len(A) - u.size)), "dual_w": w}
    proved = unions.lower_bound({"p": p, "neighbours": "add-remove"}, arrays, queries)
    exact = np.linalg.norm(scaled, "nuc") / np.sqrt(norm)
    assert float(proved.lower()) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("p", [2.0, 3.0, np.inf])
def test_bounds_of_a_product_for_pairs(p):
    rng = np.random.default_rng(5)
    factors = [np.tri(4), rng.random((5, 3))]
    u, w = [rng.random(len(A)) for A in factors], [rng.random(A.shape[1]) for A in factors]
    arrays = {f"dual_{name}_{i}": v for name, vs in (("u", u), ("w", w)) for i, v in enumerate(vs)}
    queries = Queries(None, (4, 3), [Table(1.0, dict(enumerate(factors)))])
    shares = np.kron(*w) / np.kron(*w).sum()
    norm = np.linalg.norm(np.kron(*u), np.inf if p == 2 else 1 if np.isinf(p) else p / (p - 2))
    scaled = np.sqrt(np.kron(*u))[:, None] * np.kron(*factors) * np.sqrt(shares)
    across = scaled @ (np.eye(12) - np.outer(*[np.sqrt(shares)] * 2))
    exact = np.linalg.norm(across, "nuc") / np.sqrt((1 - shares @ shares) / 2 * norm)
    proved = unions.lower_bound({"p": p, "neighbours": "replace"}, arrays, queries)
    assert exact * (1 - 1e-9) <= float(proved.lower()) <= exact * (1 + 1e-10)


@pytest.mark.parametrize("name", ["prefix:23", "decay:20,0.9"])
def test_epochs_by_their_blocks(tmp_path, monkeypatch, name):
    path, n = tmp_path / "strategy.npz", int(name[6:].split(",")[0].removeprefix(":"))
    best = pml.factorize(name, participation=f"{-(-n // 6)},every=6")
    noisy = pml.mechanism(best, guarantee=DP)
    pml.write(path, best, mechanism=noisy)
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 1)
    result = pml.verify(path)
    assert result.holds, result.failures
    assert not result.unchecked
    header, arrays = read_archive(path)
    fewer = {**arrays, "epochs": arrays["epochs"] - [0, 1, 0]}  # which leave steps out
    forged = {**header, KEY: digest_of(header, fewer)}
    np.savez(tmp_path / "fewer.npz", header=np.array(json.dumps(forged)), **fewer)
    assert pml.verify(tmp_path / "fewer.npz").failures
    A, X = pml.workload(name).to_dense(), noisy.strategy.matrix.T @ noisy.strategy.matrix
    variances = np.einsum("ij,ij->i", A @ np.linalg.inv(X), A)
    assert np.allclose(epochs.variances(arrays), variances, rtol=1e-9, atol=0)
    W = np.zeros((n, n))
    for c, block in enumerate(arrays["dual_w"]):
        steps = np.arange(c, n, 6)
        W[np.ix_(steps, steps)] = block[: steps.size, : steps.size]
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(A @ W @ A.T), 0)).sum()
    proved = epochs.nuclear_norm(arrays, np.ones(n), arrays["dual_w"])
    assert singular * (1 - 1e-9) <= proved <= singular * (1 + 1e-13)
    for entry in ("rates", "epoch_weights", "poles", "weights_of_poles", "dual_w"):
        entries = {
            **arrays,
            entry: arrays[entry]
            * np.linspace(1.001, 1.1, arrays[entry].shape[0]).reshape(
                -1, *[1] * (arrays[entry].ndim - 1)
            ),
        }
        forged = {**header, KEY: digest_of(header, entries)}
        np.savez(path, header=np.array(json.dumps(forged)), **entries)
        assert pml.verify(path).failures, entry


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pattern", ["2,min-sep=5", "3,min-sep=5", "3,every=8"])
def test_matrices_of_several_participations(tmp_path, pattern, seed):
    path, rng = tmp_path / "strategy.npz", np.random.default_rng(seed)
    R = np.tril(rng.uniform(-1, 1, (24, 24))) + 2 * np.eye(24)
    strategy = with_participation(Strategy("lower", R), as_participation(pattern)).normalised()
    noisy = pml.mechanism(strategy, "prefix:24", guarantee=DP, noise="gaussian")
    pml.write(path, noisy)
    assert pml.verify(path).holds
    header, arrays = read_archive(path)
    header["sensitivity"] *= 1 - 1e-12
    header[KEY] = digest_of({key: value for key, value in header.items() if key != KEY}, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert "sensitivity" in {check.name for check in pml.verify(path).failures}


@pytest.mark.parametrize("pattern", ["3,min-sep=6", "3,every=6"])
def test_streams_of_several_participations_by_recurrences(tmp_path, monkeypatch, pattern):
    path = tmp_path / "strategy.npz"
    single = pml.factorize("prefix:24", buffers=4, rel_gap=1e-2).strategy
    monkeypatch.setattr("pmldesign.strategies.participation.distances.MATRIX_CELLS", 1)
    noisy = pml.mechanism(single, "prefix:24", guarantee=DP, participation=pattern)
    exact = Pattern.of(pattern).sensitivity(single.matrix, "l2")
    pml.write(path, noisy)
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 1)
    result = pml.verify(path)
    assert result.holds, result.failures
    assert not result.unchecked
    proved = next(check.computed for check in result.checks if check.name == "sensitivity")
    assert exact * (1 - 1e-8) <= proved <= exact * 1.1
    header, arrays = read_archive(path)
    header["participation"] = "4" + pattern[1:]
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert pml.verify(path).failures


def test_the_matrix_is_that_of_the_strategy(honest):
    _, header, arrays, noisy = honest
    R, other = form_of(header, arrays).matrix(arrays), noisy.strategy.matrix
    if header["neighbours"] == "replace":
        R = centred(R)
    gram = other.T @ other
    assert np.allclose(R.T @ R, gram, rtol=0, atol=1e-9 * np.abs(gram).max())


def test_altered_entries_are_found(honest):
    path, header, arrays, _ = honest
    other, rng = path.with_name("altered.npz"), np.random.default_rng(5)
    for name, array in arrays.items():
        if name.startswith("dual") or array.dtype.kind != "f":
            continue
        changed = array.copy()
        changed.reshape(-1)[rng.integers(array.size)] *= 1.1
        entries = {**arrays, name: changed}
        forged = {**header, KEY: digest_of({**header}, entries)}
        np.savez(other, header=np.array(json.dumps(forged)), **entries)
        same = not array.any() or np.array_equal(array, changed)
        assert same or pml.verify(other).failures, name


CURRENCIES = [pml.ZCDP(0.1), pml.GaussianDP(0.4), pml.RenyiDP(8, 0.5)]


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("guarantee", CURRENCIES, ids=lambda entry: type(entry).__name__)
def test_currencies(tmp_path, guarantee, noise):
    path = tmp_path / "strategy.npz"
    noisy = pml.mechanism("identity", "prefix:6", guarantee=guarantee, noise=noise)
    pml.write(path, noisy)
    result = pml.verify(path)
    assert result.holds, result.failures
    assert not result.unchecked
    header, arrays = read_archive(path)
    less = {**header, "scale": header["scale"] * 0.999}
    less[KEY] = digest_of(less, arrays)
    np.savez(path, header=np.array(json.dumps(less)), **arrays)
    assert "guarantee" in {check.name for check in pml.verify(path).failures}


def largest_pattern(R, pattern, norm):
    """By going through all patterns, in l1 with all signs."""
    gram, best = np.abs(R.T @ R), 0.0
    for count in range(1, pattern.times + 1):
        for steps in combinations(range(R.shape[1]), count):
            apart = np.diff(steps)
            if (apart != pattern.apart).any() if pattern.fixed else (apart < pattern.apart).any():
                continue
            step = list(steps)
            signs = np.array(list(product([1.0, -1.0], repeat=count))).T
            moved = np.abs(R[:, step] @ signs).sum(axis=0).max()
            best = max(best, gram[np.ix_(step, step)].sum() if norm == "l2" else moved)
    return np.sqrt(best) if norm == "l2" else best


@pytest.mark.parametrize("fixed", [False, True])
def test_sensitivities_of_patterns(fixed):
    rng = np.random.default_rng(7)
    for number in range(40):
        n, pattern = int(rng.integers(3, 9)), Pattern(*rng.integers(1, 4, 2).tolist(), fixed)
        R = np.tri(n) if number % 4 == 0 else rng.standard_normal((n, n))
        for norm in ("l1", "l2"):
            exact = largest_pattern(R, pattern, norm)
            assert exact * (1 - 1e-12) <= pattern.sensitivity(R, norm) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_nuclear_norms_of_chains(n):
    rng = np.random.default_rng(n)
    rates, q, h = rng.random(n - 1) + 0.2, rng.random(n) + 0.1, rng.random(n) + 0.1
    A = np.array(
        [[q[t] * h[s] * np.prod(rates[s:t]) if s <= t else 0.0 for s in range(n)] for t in range(n)]
    )
    u, w = rng.random(n), rng.random(n)
    arrays = {"rates": rates, "query_weights": q, "step_weights": h}
    ranges = np.array([[i <= k <= j for k in range(n)] for i in range(n) for j in range(i, n)])
    for proved, matrix in (
        (resolvents.nuclear_norm(arrays, u, w), np.sqrt(u)[:, None] * A * np.sqrt(w)),
        (resolvents.nuclear_norm({}, np.ones(n), w), ranges * np.sqrt(w)),
    ):
        exact = np.linalg.norm(matrix, "nuc")
        assert exact * (1 - 1e-10) < proved < exact * (1 + 1e-13)
