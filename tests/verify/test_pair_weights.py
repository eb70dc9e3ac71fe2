"""Weights of pairs of cells in files of marginals: what they prove, from all pairs written out."""

import itertools
import math

import numpy as np
import pytest
from test_structured_claims import rewrite

import pmldesign as pml
from pmldesign.verifier import read_archive

CASES = [
    ("marginals:2,3,4,2,ways=2", None),
    ("marginals:3^4,ways=2", None),
    ("marginals:2^5,ways=3", "marginals:2^5,ways=1"),
]


def pair_weights(sizes, rho):
    """Of ordered pairs of cells, sum 1; cells of a pair agree in attributes without a class."""
    cells = np.array(list(itertools.product(*map(range, sizes))))
    differ, labels = cells[:, None] != cells, rho[0, 1:]
    agreeing = ~(differ & (labels == 0)).any(axis=2)
    alike = agreeing & differ.any(axis=2)
    W = rho[0, 0] * alike / max(alike.sum(), 1)
    for row in rho[1:]:
        here = agreeing.copy()
        for number in np.unique(labels[labels > 0]):
            members = labels == number
            here &= differ[:, :, members].sum(axis=2) == row[1:][members][0]
        W = W + row[0] * here / here.sum()
    return W / rho[:, 0].sum()


def proved(workload, known, u, rho, p):
    """The nuclear norm of U^(1/2) A (1 - P) W^(1/2), P on what is public; over norm(u)_q^(1/2)."""
    A = workload.to_dense()
    W = 2 * pair_weights(workload.domain, rho)
    values, vectors = np.linalg.eigh(np.diag(W.sum(axis=1)) - W)
    public = np.ones((1, A.shape[1])) if known is None else pml.workload(known).to_dense()
    inner = A @ (np.eye(A.shape[1]) - np.linalg.pinv(public) @ public)
    root = vectors * np.sqrt(np.maximum(values, 0))
    weights = np.repeat(u, [term.shape[0] for term in workload.terms])
    q = math.inf if p == 2 else 1 if math.isinf(p) else p / (p - 2)
    nuclear = np.linalg.norm(np.sqrt(weights)[:, None] * inner @ root, "nuc")
    return nuclear / math.sqrt(np.linalg.norm(weights, q))


def random_pairs(rng, sizes):
    """Classes of attributes of one size, and weights of random differences."""
    labels, classes = np.zeros(len(sizes)), {}
    for i, size in enumerate(sizes):
        if rng.random() < 0.9:
            labels[i] = classes.setdefault((size, int(rng.integers(2))), len(classes) + 1)
    rows = [[rng.random(), *labels]]
    for _ in range(int(rng.integers(1, 4))):
        counts = {k: rng.integers(np.sum(labels == k) + 1) for k in classes.values()}
        rows.append([rng.random(), *(counts[k] if k else 0 for k in labels)])
    return np.array(rows, dtype=float)


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
@pytest.mark.parametrize(("name", "known"), CASES)
def test_a_file_proves_what_its_pairs_prove(name, known, p, tmp_path):
    path, workload = tmp_path / "s.npz", pml.workload(name)
    design = pml.factorize(name, p=p, neighbours="replace", known=known)
    pml.write(path, design)
    assert pml.verify(path).holds
    header, arrays = read_archive(path)
    rng = np.random.default_rng(len(name))
    some = [arrays["dual_w"], *(random_pairs(rng, workload.domain) for _ in range(6))]
    for rho in some:
        value = proved(workload, known, arrays["dual_u"], rho, p)
        for factor in (1 - 1e-7, 1 + 1e-6):
            changed = {**header, "lower": value * factor, "upper": header["upper"] * 2}
            rewrite(path, changed, {**arrays, "dual_w": rho})
            names = {check.name for check in pml.verify(path).failures}
            assert ("lower" in names) == (factor > 1)


@pytest.mark.parametrize("change", ["sizes", "count", "fraction", "apart", "nothing", "sign"])
def test_weights_that_are_none_are_refused(change, tmp_path):
    path, (name, _) = tmp_path / "s.npz", CASES[0]
    pml.write(path, pml.factorize(name, neighbours="replace"))
    header, arrays = read_archive(path)
    rho = np.array([[0.5, 1, 2, 3, 1], [0.5, 1, 1, 1, 1]])
    lower = proved(pml.workload(name), None, arrays["dual_u"], rho, 2.0) * (1 - 1e-9)
    header = {**header, "lower": lower}
    rewrite(path, header, {**arrays, "dual_w": rho})
    assert pml.verify(path).holds
    if change == "sizes":
        rho[0, 2:4] = 2
    elif change == "count":
        rho[1, [1, 4]] = 3
    elif change == "fraction":
        rho[1, [1, 4]] = 0.5
    elif change == "apart":
        rho[1, 4] = 2
    elif change == "nothing":
        rho[:, 0] = 0
    else:
        rho[0, 0] = -0.1
    rewrite(path, header, {**arrays, "dual_w": rho})
    assert pml.verify(path).failures


def test_pairs_agree_on_a_public_table(tmp_path):
    path, known = tmp_path / "s.npz", "total:15*total:9*histogram:2*total:10"
    pml.write(path, pml.factorize("marginals:15,9,2,10,ways=2", known=known))
    header, arrays = read_archive(path)
    assert pml.verify(path).holds
    assert arrays["dual_w"][0, 3] == 0
    arrays["dual_w"][0, 3] = arrays["dual_w"][0].max() + 1
    rewrite(path, header, arrays)
    assert pml.verify(path).failures


def test_many_attributes_are_proved(tmp_path):
    path = tmp_path / "s.npz"
    design = pml.factorize("marginals:10^30,ways=2", neighbours="replace")
    pml.write(path, design)
    found = pml.verify(path)
    assert not found.failures
    assert "lower" not in {check.name for check in found.unchecked}
    header, arrays = read_archive(path)
    rewrite(path, {**header, "lower": header["lower"] * (1 + 1e-6)}, arrays)
    assert "lower" in {check.name for check in pml.verify(path).failures}
