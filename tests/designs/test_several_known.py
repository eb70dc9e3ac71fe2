"""Several known tables at once, against databases enumerated and matrices written out."""

import itertools
import json
import math

import numpy as np
import pytest
import scipy

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.releases import exact_noise
from pmldesign.verifier import KEY, digest_of
from pmldesign.workloads import RECORDS, Public, as_public

MARGINS = {
    "2 x 2": ((2, 2), ((0,), (1,))),
    "1 x 3 x 2": ((1, 3, 2), ((1,), (2,))),
    "2 x 3 x 2": ((2, 3, 2), ((0, 1), (2,))),
    "three pairs": ((2, 3, 2), ((0, 1), (0, 2), (1, 2))),
    "two pairs": ((2, 2, 3), ((0, 1), (0, 2))),
    "three alone": ((3, 2, 2), ((0,), (1,), (2,))),
}


def tables(sizes, sets):
    """K, a row for each number of each table, from its meaning."""
    cells = list(itertools.product(*map(range, sizes)))
    return np.array(
        [
            [all(cell[i] == v for i, v in zip(S, values, strict=True)) for cell in cells]
            for S in sets
            for values in itertools.product(*(range(sizes[i]) for i in S))
        ],
        dtype=float,
    )


def text(sizes, sets):
    """The same as a workload."""
    return "+".join(
        "*".join(f"{'histogram' if i in S else 'total'}:{n}" for i, n in enumerate(sizes))
        for S in sets
    )


def databases(cells, records):
    """All histograms of so many records."""
    for chosen in itertools.combinations_with_replacement(range(cells), records):
        yield np.bincount(chosen, minlength=cells)


@pytest.mark.parametrize("case", MARGINS)
def test_p_leaves_what_the_tables_do_not_tell(case):
    sizes, sets = MARGINS[case]
    public, K = as_public(text(sizes, sets), math.prod(sizes)), tables(sizes, sets)
    P = np.eye(K.shape[1]) - np.linalg.pinv(K, 1e-11) @ K
    X = np.random.default_rng(0).standard_normal((4, K.shape[1]))
    np.testing.assert_allclose(public.within(X.T).T, X @ P, atol=1e-12)
    np.testing.assert_allclose(public.centre(X), X @ P, atol=1e-12)
    np.testing.assert_allclose(public.relative(X) @ P, X @ P, atol=1e-12)
    assert public.dimension(range(len(sizes))) == np.linalg.matrix_rank(K)
    for S in itertools.chain.from_iterable(
        itertools.combinations(range(len(sizes)), k) for k in range(4)
    ):
        told = np.abs(tables(sizes, [S]) @ P).max() < 1e-12
        assert public.tells(i for i in S if sizes[i] > 1) == told


def test_tables_that_follow_from_others_are_one_table():
    pair = "histogram:2*histogram:3*total:2"
    known = [
        f"{pair}+{more}" for more in ("histogram:2*total:3*total:2", "total:2*total:3*total:2")
    ]
    one, other = (as_public(text, 12) for text in known)
    assert not one.several
    assert one.agrees(other)
    assert as_public("total:2*total:3+total:2*total:3", 6) is RECORDS
    with pytest.raises(InvalidInputError, match="nothing would be protected"):
        as_public("histogram:2*total:3+histogram:2*histogram:3", 6)


@pytest.mark.parametrize("case", MARGINS)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("queries", ["tables", "ranges"])
def test_neighbours_are_no_farther_apart_and_equal_answers_are_taken_off(case, noise, queries):
    """What is published is a function of the tables and of Z x + noise, and Z x keeps its word."""
    sizes, sets = MARGINS[case]
    K, cells = tables(sizes, sets), math.prod(sizes)
    asked = f"histogram:{'*histogram:'.join(map(str, sizes))}"
    asked = asked if queries == "tables" else asked.replace("histogram", "prefix")
    promise = pml.ApproxDP(1, 1e-6) if noise == "gaussian" else pml.PureDP(1)
    noisy = pml.optimize(asked, guarantee=promise, known=text(sizes, sets), noise=noise).best
    assert noisy.calibration.guarantee.published == text(sizes, sets)
    exact = exact_noise(noisy)
    order = 2 if noise == "gaussian" else 1
    everybody = list(databases(cells, 2))
    images = np.array([exact.lattice.image(x) for x in everybody], dtype=float)
    steps = np.array([np.abs(everybody - x).sum(axis=1) == 2 for x in np.array(everybody)])
    apart = np.array([np.linalg.norm(images - image, order, axis=1) for image in images])
    stated = exact.sensitivity
    largest = apart[steps].max() ** order
    assert largest <= stated * (1 + 1e-12)
    assert largest >= 0.9 * stated
    taken, seen = {}, {}
    for x, image in zip(everybody, images, strict=True):
        shift, common = exact._public_image(x)
        answers = tuple((K @ x).tolist())
        assert taken.setdefault(answers, tuple(s / common for s in shift)) == tuple(
            s / common for s in shift
        )
        seen.setdefault(answers, set()).add(tuple(image))
    told = case == "three pairs"  # two records with the same pairs are the same
    assert any(len(one) > 1 for one in seen.values()) is not told
    zero = exact.measure(everybody[7], sampler=lambda _kind, _scale, size: np.zeros(size, int))
    P = np.eye(cells) - np.linalg.pinv(K, 1e-11) @ K
    found = exact.factorization.strategy.answer(exact.factorization.workload, zero)
    near = 1e-9 if exact.lattice.bias == 0 else 1e-4
    np.testing.assert_allclose(found, pml.workload(asked).to_dense() @ P @ everybody[7], atol=near)


def value(R, A, K):
    """The norm of a factorization beside K x: longest difference by the least squares."""
    P = np.eye(R.shape[1]) - np.linalg.pinv(K, 1e-11) @ K
    longest = max(
        np.linalg.norm(R[:, i] - R[:, j]) for i, j in itertools.combinations(range(R.shape[1]), 2)
    )
    return np.linalg.norm(A @ P @ np.linalg.pinv(R @ P, rcond=1e-9)) * longest


@pytest.mark.parametrize("case", ["2 x 2", "1 x 3 x 2"])
@pytest.mark.parametrize("kind", ["histogram", "prefix"])
def test_no_matrix_is_below_the_bound(case, kind):
    """A descent over all matrices R, those that measure in part what is public among them."""
    sizes, sets = MARGINS[case]
    K, n = tables(sizes, sets), math.prod(sizes)
    asked = "*".join(f"{kind}:{size}" for size in sizes)
    A = pml.workload(asked).to_dense()
    design = pml.factorize(asked, known=text(sizes, sets), p=2)
    lower, upper = design.certificate.lower, design.certificate.upper
    found = value(design.strategy.matrix, A, K)
    assert lower <= found <= upper * (1 + 1e-9)
    rng, best = np.random.default_rng(3), math.inf
    for start in (design.strategy.matrix, np.eye(n)):
        R = np.vstack([start, np.zeros((n - len(start), n))]) + 1e-3 * rng.standard_normal((n, n))
        descent = scipy.optimize.minimize(
            lambda flat: value(flat.reshape(n, n), A, K),
            R.ravel(),
            method="Powell",
            options={"maxfev": 500},
        )
        best = min(best, descent.fun)
    assert lower * (1 - 1e-9) <= best


@pytest.mark.parametrize(("s", "a"), [(2, 2), (3, 4), (1, 5), (2, 7)])
def test_a_table_beside_its_margins_has_a_closed_form(s, a):
    """X = c P_12; cells that differ in one attribute are the farthest apart."""
    if s == 1:
        with pytest.raises(InvalidInputError, match="nothing would"):
            pml.factorize(f"histogram:{s}*histogram:{a}", known=f"marginals:{s},{a},ways=1")
        return
    design = pml.factorize(f"marginals:{s},{a},ways=2", known=f"marginals:{s},{a},ways=1", p=2)
    exact = math.sqrt(2 * (s - 1) * (a - 1) * max(1 - 1 / s, 1 - 1 / a))
    assert design.certificate.lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= design.certificate.upper
    assert design.certificate.gap <= 1e-6


@pytest.mark.parametrize("p", [2, 3, math.inf])
@pytest.mark.parametrize("case", ["2 x 3 x 2", "three pairs", "two pairs", "three alone"])
def test_tables_have_the_norm_of_their_matrix(case, p):
    sizes, sets = MARGINS[case]
    if case == "three pairs":
        asked = "*".join(f"histogram:{n}" for n in sizes)
    else:
        asked = f"marginals:{','.join(map(str, sizes))},ways=2"
    known = text(sizes, sets)
    tabled = pml.factorize(asked, known=known, p=p)
    written = pml.factorize(pml.workload(asked).to_dense(), known=known, p=p)
    assert tabled.certificate.gap <= 1e-5
    assert written.certificate.lower <= tabled.certificate.upper * (1 + 1e-9)
    assert tabled.certificate.lower <= written.certificate.upper * (1 + 1e-9)


@pytest.mark.parametrize("queries", ["marginals:3,4,2,ways=2", "prefix:3*prefix:4*histogram:2"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_files_are_verified_and_other_tables_are_not(queries, noise, tmp_path):
    known = "histogram:3*total:4*total:2+total:3*histogram:4*total:2"
    promise = pml.ApproxDP(1, 1e-6) if noise == "gaussian" else pml.PureDP(1)
    noisy = pml.optimize(queries, guarantee=promise, known=known, noise=noise).best
    path = tmp_path / "design.npz"
    pml.write(path, noisy)
    assert pml.verify(path).holds
    again = pml.read(path)
    assert again.public.agrees(noisy.strategy.public)
    norm = "l2" if noise == "gaussian" else "l1"
    assert again.sensitivity_under("replace", norm) == pytest.approx(noisy.sensitivity, rel=1e-9)
    with np.load(path) as kept:
        arrays = {name: kept[name] for name in kept.files if name != "header"}
        header = json.loads(str(kept["header"]))
    for changes, changed in (
        ({"sensitivity": 0.9 * header["sensitivity"], "scale": 0.9 * header["scale"]}, {}),
        ({"error": 0.99 * header["error"]}, {}),
        ({}, {"counted": np.array([[1, 0, 0], [0, 1, 1]])}),
        ({}, {"counted": np.array([[1, 1, 0], [0, 1, 1]])}),
        ({}, {"counted": np.array([1, 0, 0])}),
        ({"guarantee_numbers": {**header["guarantee_numbers"], "published": "total:24"}}, {}),
    ):
        forged, others = {**header, **changes}, {**arrays, **changed}
        forged[KEY] = digest_of(forged, others)
        np.savez(path, header=np.array(json.dumps(forged)), **others)
        assert pml.verify(path).failures, (changes, changed)


def test_a_bound_that_is_too_large_is_found(tmp_path):
    known, path = "marginals:3,4,ways=1", tmp_path / "design.npz"
    for queries in ("prefix:3*prefix:4", "histogram:3*histogram:4"):
        design = pml.factorize(queries, known=known)
        pml.write(path, design)
        assert pml.verify(path).holds
        with np.load(path) as kept:
            arrays = {name: kept[name] for name in kept.files if name != "header"}
            header = json.loads(str(kept["header"]))
        header["lower"] = 0.5 * header["lower"] + 0.5 * header["upper"] + 1e-6
        header["upper"] += 1e-5
        header[KEY] = digest_of(header, arrays)
        np.savez(path, header=np.array(json.dumps(header)), **arrays)
        assert "lower" in {check.name for check in pml.verify(path).failures}


def test_large_domains_leave_out_what_is_known():
    known = "marginals:50,20,100,10,ways=1"
    beside = pml.factorize("marginals:50,20,100,10,ways=2", known=known)
    without = pml.factorize("marginals:50,20,100,10,ways=2", neighbours="replace")
    assert beside.certificate.gap <= 1e-6
    assert beside.certificate.upper < without.certificate.lower
    assert {len(T) for T in beside.strategy.residuals} == {2}


def test_exchangeable_attributes_of_which_some_are_known():
    """Equal sizes and queries, but a table of one of them alone is known."""
    queries = "marginals:3^3,ways=2"
    known = "histogram:3*total:3*total:3+total:3*histogram:3*total:3"
    tabled = pml.factorize(queries, known=known)
    written = pml.factorize(pml.workload(queries).to_dense(), known=known)
    assert tabled.certificate.gap <= 1e-6
    assert tabled.certificate.lower <= written.certificate.upper * (1 + 1e-9)
    assert written.certificate.lower <= tabled.certificate.upper * (1 + 1e-9)


def test_what_is_refused():
    known = "marginals:2,3,ways=1"
    with pytest.raises(InvalidInputError, match="use `neighbours='replace'`"):
        pml.optimize("histogram:2*histogram:3", known=known).best.strategy.sensitivity_under(
            "add-remove", "l2"
        )
    with pytest.raises(InvalidInputError, match="the known answers tell all that it asks for"):
        pml.optimize("marginals:2,3,ways=1", known=known)
    with pytest.raises(InvalidInputError, match="both must have the same cells"):
        pml.optimize("histogram:7", known=known)
    assert Public("tables", "k", sizes=(2, 3), tables=(frozenset({0}), frozenset({1}))).several
