"""Files for all rows of one person: verification computes the sensitivity again."""

import json
from itertools import product

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.verifier import KEY, digest_of, read_archive
from pmldesign.verifier.forms import persons

CASES = [
    ("histogram:12", "3,any", "gaussian", "add-remove"),
    ("prefix:12", "3,one-per=cell", "gaussian", "add-remove"),
    ("prefix:4*histogram:3", "4,one-per=1x4x3", "gaussian", "add-remove"),
    ("prefix:4*histogram:3", "2,one-per=4x3x1", "laplace", "add-remove"),
    ("histogram:4*histogram:3+histogram:4*total:3", "3,one-per=cell", "gaussian", "replace"),
    ("prefix:6", "2,any", "laplace", "replace"),
    ("prefix:3*histogram:9", "3,one-per=1x3x9", "factors", "add-remove"),
    ("prefix:9*histogram:3", "3,one-per=cell", "factors", "add-remove"),
]


@pytest.mark.parametrize(("workload", "rows", "noise", "relation"), CASES)
def test_honest_files_hold_and_others_do_not(
    workload, rows, noise, relation, tmp_path, monkeypatch
):
    if noise == "factors":  # as if they were too large to be written out
        noise = "gaussian"
        monkeypatch.setattr("pmldesign.strategies.base.WRITTEN_CELLS", 12)
        monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 12)
        monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 12)
    guarantee = pml.PureDP(1.0, relation)
    if noise == "gaussian":
        guarantee = pml.ZCDP(0.5, relation)
    design = pml.factorize(workload, neighbours=relation, participation=rows)
    noisy = pml.mechanism(design, guarantee=guarantee, noise=noise)
    assert design.certificate.lower <= design.certificate.upper
    path = tmp_path / "s.npz"
    pml.write(path, design, mechanism=noisy)
    verified = pml.verify(path)
    assert verified.holds, [*verified.failures, *verified.unchecked]
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    header = json.loads(str(arrays.pop("header")))
    assert header["participation"] == rows
    for name, factor in (("scale", 0.999), ("sensitivity", 0.999), ("upper", 0.999)):
        assert fails(path, {**header, name: header[name] * factor}, arrays), name
    times, kind = rows.split(",")
    for more, other in product((0, 1), (kind, "any")):
        said = f"{int(times) + more},{other}"
        if said != rows:
            assert fails(path, {**header, "participation": said}, arrays), said


def fails(path, header, arrays):
    header = {name: value for name, value in header.items() if name != KEY}
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    return pml.verify(path).failures


@pytest.mark.parametrize("rows", ["2,one-per=cell", "8,one-per=cell", "8,one-per=1x8x2"])
def test_people_are_as_far_apart_as_rows_of_one_group(rows, tmp_path):
    """What tells groups apart, which nobody changes, makes single rows farther, not people nearer.

    A person may have k rows in the first cells of k groups, or in the second ones: k apart.
    """
    path, known = tmp_path / "s.npz", "histogram:8*total:2"
    queries = np.tile([0.5, -0.5], 8)[None]
    asked = {"known": known, "guarantee": pml.ApproxDP(1.0, 1e-6), "noise": "gaussian"}
    noisy = pml.mechanism(pml.Strategy("R", queries), queries, participation=rows, **asked)
    pml.write(path, noisy)
    assert pml.verify(path, workload=queries).holds
    header, arrays = read_archive(path)
    times = int(rows.split(",")[0])
    assert header["sensitivity"] == pytest.approx(times)
    for size in (0.7, 1.0, 3.0, 10.0):
        groups = size * np.kron(np.eye(8), np.ones(2))
        L = np.hstack([arrays["reconstruction"], np.zeros((1, 8))])
        R = np.vstack([arrays["strategy"], groups])
        people = persons.Persons.of(rows)
        far = people.distance(R, "l2", replaced=True)
        ratio = far / persons.one_row(R, "l2", replaced=True) / times
        assert ratio < 1
        other = {n: header[n] * ratio for n in ("scale", "sensitivity", "error", "rmse", "max_std")}
        made = {**arrays, "strategy": R, "reconstruction": L}
        other = {**header, **other, KEY: ""}
        np.savez(path, header=np.array(json.dumps({**other, KEY: digest_of(other, made)})), **made)
        failures = pml.verify(path, workload=queries).failures
        assert "sensitivity" in {check.name for check in failures}
