"""What a file has to say: claims, arrays and sentences that are missing or impossible."""

import json
import warnings
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner
from test_structured_claims import rewrite

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import PartlyCheckedError
from pmldesign.privacy import from_json
from pmldesign.releases import as_text
from pmldesign.verifier import (
    FORMS,
    KEY,
    KINDS,
    OBJECT,
    digest_of_object,
    kind_of,
    read_archive,
    sentence_of,
)

CASES = {
    "matrix": ("histogram:5", {}, pml.ApproxDP(1, 1e-6)),
    "marginals": ("marginals:3,4,2,ways=2", {}, pml.ApproxDP(1, 1e-6)),
    "stream": ("prefix:16", {"buffers": 4}, pml.ApproxDP(1, 1e-6)),
    "replace": ("prefix:5", {"neighbours": "replace"}, pml.ApproxPML(1, 1e-4, 0.1)),
    "known": ("prefix:6", {"known": "histogram:3*total:2"}, pml.ApproxDP(1, 1e-6)),
}
PROVENANCE = {"pmldesign", "versions", "workload"}
"""What a file says of where it comes from."""


def written(path, case):
    name, options, guarantee = CASES[case]
    design = pml.factorize(name, **options)
    known = options.get("known")
    noisy = pml.mechanism(design, name, guarantee=guarantee, noise="gaussian", known=known)
    pml.write(path, design, mechanism=noisy)
    return read_archive(path)


@pytest.fixture(scope="module", params=CASES)
def honest(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "strategy.npz"
    header, arrays = written(path, request.param)
    assert pml.verify(path).holds
    return path.with_name("other.npz"), header, arrays


def test_no_claim_and_no_array_may_be_missing(honest):
    path, header, arrays = honest
    for name in header.keys() - {KEY, "form"}:
        rewrite(path, {key: value for key, value in header.items() if key != name}, arrays)
        if name == "format":
            with pytest.raises(pml.FileError):
                pml.verify(path)
        else:
            assert not pml.verify(path).holds, name
    for name in arrays:
        rewrite(path, dict(header), {key: a for key, a in arrays.items() if key != name})
        assert pml.verify(path).failures, name
    rewrite(path, {**header, "more": 1}, arrays)
    assert pml.verify(path).failures
    rewrite(path, dict(header), {**arrays, "more": np.ones(2)})
    assert pml.verify(path).failures


def test_files_with_another_name_of_their_form_fail(honest):
    path, header, arrays = honest
    named = header.get("form", "matrix")
    if named != "matrix":
        rewrite(path, {key: value for key, value in header.items() if key != "form"}, arrays)
        assert pml.verify(path).failures
    for name in {*FORMS, "nothing"} - {named}:
        rewrite(path, {**header, "form": name}, arrays)
        assert pml.verify(path).failures, name


def test_bounds_without_each_other_or_the_wrong_way_round(honest):
    path, header, arrays = honest
    half = {key: value for key, value in header.items() if key != "upper"}
    exchanged = {**header, "lower": header["upper"] * 1.01}
    for forged in (half, {**half, "lower": 1e9}, exchanged):
        rewrite(path, dict(forged), arrays)
        assert pml.verify(path).failures


def test_weights_below_zero_prove_nothing(honest):
    path, header, arrays = honest
    for name, array in arrays.items():
        if name in ("strategy", "reconstruction", "groups", "rates"):
            continue
        changed = array.copy()
        changed.reshape(-1)[0] = -1 - changed.reshape(-1)[0]
        for scale in (1, 0.2):
            bounds = {key: header[key] * scale for key in ("lower", "upper")}
            rewrite(path, {**header, **bounds}, {**arrays, name: changed})
            assert pml.verify(path).failures, name


def test_public_answers_that_the_guarantee_does_not_name(tmp_path):
    header, arrays = written(tmp_path / "known.npz", "known")
    silent = {key: v for key, v in header["guarantee_numbers"].items() if key != "known"}
    words = from_json(silent).describe(6)
    other = {**header, "guarantee_numbers": silent, "guarantee": words}
    nameless = {key: value for key, value in other.items() if key != "known"}
    for forged in (other, nameless):
        rewrite(tmp_path / "false.npz", forged, arrays)
        failed = {check.name for check in pml.verify(tmp_path / "false.npz").failures}
        assert "known" in failed


GUARANTEES = [
    *(pml.PureDP(1), pml.PureDP(0.25, "replace", known="sex 'F'"), pml.ApproxDP(1, 1e-6)),
    *(pml.ZCDP(0.1), pml.GaussianDP(0.5, "replace"), pml.RenyiDP(8, 0.3, "replace", known="a*b")),
    *(pml.PML(1.5, 0.1), pml.ApproxPML(0.3, 1e-9, (0.05, 0.2, 1 / 3)), pml.PML(1e-3, 1 / 3)),
    *(pml.EnvelopePML(0.1, 0.01, pml.envelope.sampled_alpha([5, 0, 90], 0.9)), pml.PML(0.1, 1e-17)),
]


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda g: type(g).__name__)
def test_sentences_are_those_that_are_promised(guarantee):
    numbers, cells = guarantee.to_json(), 3 if "alpha" in str(guarantee) else 10**16
    cells = 10**16 if getattr(guarantee, "alpha", None) == 1e-17 else cells
    kind = kind_of(numbers)
    assert kind is KINDS[type(guarantee).__name__]
    assert sentence_of(kind, numbers, cells) == guarantee.describe(cells)


def test_other_words_for_the_numbers_are_found(tmp_path):
    header, arrays = written(tmp_path / "a.npz", "replace")
    words, path = header["guarantee"], tmp_path / "b.npz"
    for other in (
        words.replace("e^1 times", "e^0.1 times"),  # a number that it has, in another place
        words.replace("0.1", "0.0001"),
        words.replace("provided that records are independent, ", ""),
        "Nothing can be learned about anybody.",
        CASES["matrix"][2].describe(5),
        "",
    ):
        assert other != words
        rewrite(path, {**header, "guarantee": other}, arrays)
        assert pml.verify(path).failures


def forged_manifest(path, content):
    content = {**content, KEY: {**content[KEY]}}
    content[KEY][OBJECT] = digest_of_object(content)
    path.write_text(json.dumps(content))
    return {check.name for check in pml.verify(path).failures}


@pytest.fixture
def published(tmp_path):
    noisy = pml.mechanism("identity", "histogram:4", guarantee=pml.PureDP(5))
    path = tmp_path / "table.csv"
    pml.release(noisy, np.arange(4)).save(path)
    manifest = path.with_suffix(".manifest.json")
    return path, manifest, json.loads(manifest.read_text())


def test_false_manifests(published):
    _, manifest, content = published
    promise, lattice = content["guarantee"], content["lattice"]
    whole = int(lattice["sensitivity"])
    forged = [
        {"lattice": {**lattice, "sensitivity": f"{1000 * whole + 999}/1000"}},
        {"lattice": {**lattice, "sensitivity": f"{whole}.9"}},
        {"guarantee": {**promise, "neighbours": "replace"}},
        {"guarantee": {**promise, "kind": "PerfectDP"}},
        {"guarantee": {**promise, "words": promise["words"].replace("e^5", "e^1")}},
        {"guarantee": {**promise, "known": "sex"}},
        {"guarantee": {**promise, "words": "Nothing is revealed."}},
        {"noise": {**content["noise"], "sampler": "not private: for tests"}},
        {"noise": {**content["noise"], "sampler": "OpenDP 0.14.1"}},
        {"noise": {**content["noise"], "sampler": " opendp 0.1"}},
        {"noise": {**content["noise"], "sampler": ""}},
        {"guarantee": {**promise, "participation": "3,any"}},
        {"queries": 5},
        {"more": 1},
    ]
    for change in forged:
        assert forged_manifest(manifest, {**content, **change}), change
    for name in content.keys() - {"format", "lattice", KEY}:
        less = {key: value for key, value in content.items() if key != name}
        assert forged_manifest(manifest, less), name


@pytest.mark.parametrize("promise", [pml.PML(1, 0.1), pml.EnvelopePML(1, 0.01, 0.1), pml.ZCDP(1)])
def test_every_number_of_a_guarantee_and_of_distances_is_there(tmp_path, promise):
    noisy = pml.mechanism("identity", "histogram:4", guarantee=promise)
    released = pml.release(noisy, np.arange(4))
    released.save(tmp_path / "table.csv")
    manifest = tmp_path / "table.manifest.json"
    content = json.loads(manifest.read_text())
    assert not pml.verify(manifest).failures
    for name in content["guarantee"]:
        less = {key: value for key, value in content["guarantee"].items() if key != name}
        assert forged_manifest(manifest, {**content, "guarantee": less}), name
    whole = int(content["lattice"]["sensitivity"])
    for other in (whole * 101 // 100, whole * 99 // 100, 1):
        lattice = {**content["lattice"], "sensitivity": str(other)}
        assert forged_manifest(manifest, {**content, "lattice": lattice}), other


def test_a_manifest_is_verified_with_its_table(published):
    path, manifest, content = published
    for file in (path, manifest):
        result = pml.verify(file)
        assert not result.failures
        assert not result.holds  # of the strategy the manifest has the hash alone
    text = path.read_text()
    path.write_text(text.replace(text.split("\n")[1].split(",")[1], "9999", 1))
    assert [check.name for check in pml.verify(path).failures] == ["table"]
    path.unlink()
    assert [check.name for check in pml.verify(manifest).failures] == ["table"]
    path.write_text(text)
    hashes = {key: value for key, value in content[KEY].items() if key != "table"}
    assert "table" in forged_manifest(manifest, {**content, KEY: hashes})
    manifest.write_text(as_text(content))
    path.with_suffix(".known.csv").write_text("a\n")
    assert [check.name for check in pml.verify(path).failures] == ["known"]
    manifest.unlink()
    with pytest.raises(pml.FileError, match=r"has no manifest table\.manifest\.json"):
        pml.verify(path)


def test_names_of_attributes_need_their_schema(tmp_path):
    schema, path = tmp_path / "schema.json", tmp_path / "best.npz"
    schema.write_text('{"attributes": [{"name": "sex", "keys": ["F", "M"]}]}')
    queries = pml.workload("sex", schema=schema)
    pml.write(path, pml.mechanism("identity", queries, guarantee=pml.PureDP(1)))
    run = CliRunner().invoke
    partly = run(main, ["verify", str(path)])
    assert partly.exit_code == PartlyCheckedError.exit_code == 8
    assert partly.stderr.startswith("note: best.npz: what was checked holds; not checked: L R = A")
    assert run(main, ["verify", str(path), "--schema", str(schema)]).exit_code == 0


def test_ranges_without_a_number_for_each_claim_no_largest_deviation(tmp_path):
    path = tmp_path / "ranges.npz"
    design = pml.factorize("all-range:16", buffers=3)
    noisy = pml.mechanism(design, guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian")
    pml.write(path, design, mechanism=noisy)
    header, arrays = read_archive(path)
    rewrite(path, {**header, "max_std": None}, arrays)  # as of more than 2^26 ranges
    result = pml.verify(path)
    assert result.holds, (result.failures, result.unchecked)
    rewrite(path, {**header, "rmse": None}, arrays)
    assert [check.name for check in pml.verify(path).unchecked] == ["rmse"]


def test_a_loss_is_not_above_the_one_that_is_promised(tmp_path):
    """Also where claims come from the structure of a strategy, and may be bounds."""
    path, epochs, replace = tmp_path / "s.npz", {"participation": "4,every=4"}, "replace"
    for name, options, guarantee, noise in (
        ("prefix:16", epochs, pml.ApproxDP(1, 1e-6), "gaussian"),
        ("marginals:3,2,ways=1", {"neighbours": replace}, pml.PML(1, 0.1), "laplace"),
        ("prefix:5", {"neighbours": replace}, pml.ApproxPML(1, 1e-3, 0.1), "gaussian"),
    ):
        design = pml.factorize(name, rel_gap=1e-3, **options)
        noisy = pml.mechanism(design, name, guarantee=guarantee, noise=noise)
        pml.write(path, design, mechanism=noisy)
        assert pml.verify(path).holds
        header, arrays = read_archive(path)
        for factor in (1.001, 2.0, 1e6):
            rewrite(path, {**header, "achieved": header["achieved"] * factor}, arrays)
            assert {check.name for check in pml.verify(path).failures} == {"achieved"}


def test_several_participations_are_for_records_that_are_added(tmp_path):
    path = tmp_path / "s.npz"
    header, arrays = written(path, "replace")
    for text in ("2,min-sep=1", "1,every=1"):
        rewrite(path, {**header, "participation": text}, arrays)
        assert "claims" in {check.name for check in pml.verify(path).failures}


@pytest.mark.parametrize("case", ["matrix", "stream"])
def test_a_name_that_comes_twice_is_refused(tmp_path, case):
    """Other readers may take the one that is not checked."""
    path = tmp_path / "s.npz"
    header, arrays = written(path, case)
    false = '{"guarantee": "Nothing can be learned about anybody.", '
    np.savez(path, header=np.array(false + json.dumps(header)[1:]), **arrays)
    with pytest.raises(pml.FileError, match="'guarantee' comes twice"):
        pml.verify(path)
    rewrite(path, header, arrays)
    members = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        text = archive.read("header.npy")
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("header.npy", text)
    assert path.read_bytes() != members
    with pytest.raises(pml.FileError, match=r"'header\.npy' comes twice"):
        pml.verify(path)


def test_a_name_that_comes_twice_in_a_manifest_is_refused(published):
    _, path, _ = published
    text = path.read_text().replace('"words"', '"words": "Nothing leaks.", "words"', 1)
    path.write_text(text)
    with pytest.raises(pml.FileError, match="'words' comes twice"):
        pml.verify(path)


@pytest.mark.parametrize("name", ["marginals:3,2,ways=1", "marginals:3,2,4,ways=2"])
def test_wide_gaps_are_honest(tmp_path, name):
    """Weights that are far from the best prove less than others would, and the file says so."""
    for gap in (1.0, 0.1, 1e-3):
        design = pml.factorize(name, rel_gap=gap, neighbours="replace")
        pml.write(tmp_path / "s.npz", design)
        assert pml.verify(tmp_path / "s.npz").holds


def test_public_answers_that_no_array_is_beside(tmp_path):
    """The words of several public tables, over a strategy that is beside none."""
    path = tmp_path / "s.npz"
    promise = pml.ApproxDP(1.0, 1e-6, "replace")
    pml.write(path, pml.mechanism("identity", "prefix:6", guarantee=promise))
    header, arrays = read_archive(path)
    numbers = {**header["guarantee_numbers"], "published": "histogram:6"}
    words = sentence_of(kind_of(numbers), numbers, 6)
    rewrite(path, {**header, "guarantee_numbers": numbers, "guarantee": words}, arrays)
    assert "known" in {check.name for check in pml.verify(path).failures}


@pytest.mark.parametrize("p", ["\uff12.0", " 2.0", "2_0", "nan", "Infinity"])
def test_orders_are_plain_numbers(p, tmp_path):
    path = tmp_path / "s.npz"
    pml.write(path, pml.factorize("prefix:4"))
    header, arrays = read_archive(path)
    rewrite(path, {**header, "p": p}, arrays)
    assert "claims" in {check.name for check in pml.verify(path).failures}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("records",), 1e9),
        (("records",), True),
        (("lattice", "bias_of_an_entry"), "none, and epsilon is 0.01"),
        (("lattice", "bias_of_an_entry"), None),
        (("post_processing",), {"integers": "by hand"}),
        (("post_processing",), ""),
        (("workload",), ["histogram:5"]),
    ],
)
def test_claims_of_manifests_are_of_their_kinds(place, value, tmp_path):
    path = tmp_path / "r.csv"
    promise = pml.PureDP(1.0, "replace")
    noisy = pml.mechanism("identity", "histogram:5", guarantee=promise)
    pml.release(noisy, np.arange(5)).save(path)
    manifest = tmp_path / "r.manifest.json"
    content = json.loads(manifest.read_text())
    assert not pml.verify(manifest).failures
    holder = content
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    content[KEY][OBJECT] = digest_of_object(content)
    manifest.write_text(json.dumps(content))
    assert "claims" in {check.name for check in pml.verify(manifest).failures}


def test_distances_are_listed_in_one_way(tmp_path):
    """Negative numbers of cells, or a second list that nobody reads."""
    path = tmp_path / "r.csv"
    noisy = pml.mechanism("identity", "histogram:5", guarantee=pml.PML(1.0, 0.01))
    pml.release(noisy, np.arange(5)).save(path)
    manifest = tmp_path / "r.manifest.json"
    honest = json.loads(manifest.read_text())
    listed = honest["distances"]
    far = listed["to_later_cells"][0].split()[0]
    once = {"norm": listed["norm"], "from_any": f"0.0 {far}", "cells": [1, 4], "different": 5}
    less = {**once, "from_any": f"0.0 {far} {far}", "cells": [1, 9, -5]}
    for distances, right in ((once, True), ({**listed, **once}, False), (less, False)):
        content = {**honest, "distances": distances, KEY: {**honest[KEY]}}
        content[KEY][OBJECT] = digest_of_object(content)
        manifest.write_text(json.dumps(content))
        assert bool(pml.verify(manifest).failures) is not right
