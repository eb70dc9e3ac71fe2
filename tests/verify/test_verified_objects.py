"""`verify` on manifests of releases and certificates of envelopes."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError
from pmldesign.privacy import DistanceProfile
from pmldesign.releases import Release
from pmldesign.strategies import Strategy
from pmldesign.verifier import KEY, OBJECT, digest_of_object

SCHEMA = {"attributes": [{"name": "sex", "keys": ["F", "M"]}, {"name": "b", "keys": [1, 2, 3]}]}


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words], prog_name="pmldesign")
    assert result.exit_code == 0, result.output
    return result


KINDS = {
    "currency": ("gaussian", "--guarantee", "gdp:0.4"),
    "pml": ("laplace", "--alpha", "0.05"),
    "slack": ("gaussian", "--guarantee", "pml:1,alpha=0.05,delta=1e-4,failure=slack"),
    "vector": ("gaussian", "--alpha", "alpha.csv", "--delta", "1e-4"),
    "sample": ("laplace", "--alpha", "sample:counts.csv"),
    "sampled slack": ("gaussian", "--alpha", "sample:counts.csv", "--delta", "1e-4"),
}


@pytest.fixture(scope="module", params=["gaussian", "laplace", "envelope", *KINDS])
def honest(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "envelope":
        path = folder / "certificate.json"
        prior = "0.3,0.3,0.2,0.1,0.1"
        words = ("laplace:5,scale=1,cells=8", "--prior", prior, "--failure-probability", 0.2)
        run("envelope", *words, "--certificate", path)
        return path, json.loads(path.read_text())
    people, schema = folder / "people.csv", folder / "schema.json"
    people.write_text("sex,b\nF,1\nM,2\nF,3\n")
    schema.write_text(json.dumps(SCHEMA))
    (folder / "alpha.csv").write_text("0.02\n0.05\n0.03\n0.1\n0.01\n0.2\n")
    (folder / "counts.csv").write_text("90\n120\n60\n200\n80\n150\n")
    noise, *options = KINDS.get(request.param, (request.param,))
    options = [re.sub(r"\w+\.csv", lambda file: str(folder / file[0]), word) for word in options]
    words = ["--schema", schema, "--noise", noise, "-o", folder / "t.csv"]
    words += [] if "--guarantee" in options else ["--epsilon", 1]
    words += ["--effort", "quick"]
    delta = ("--delta", 1e-6) if request.param == "gaussian" else ()
    run("release", "sex*b", people, *words, *delta, *options)
    path = folder / "t.manifest.json"
    return path, json.loads(path.read_text())


def numbers(content, place=()):
    """The places of all numbers."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from numbers(value, (*place, key))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (*place, key)


def altered(content, place, part):
    other = json.loads(json.dumps(content))
    holder = other
    for key in place[:-1]:
        holder = holder[key]
    value = holder[place[-1]]
    holder[place[-1]] = value + 1 if isinstance(value, int) else value * (1 + part) or part
    return other


def test_they_hold(honest):
    path, _ = honest
    result = pml.verify(path)
    assert not result.failures
    assert result.holds == (result.kind == "envelope")
    assert len(result.checks) - len(result.unchecked) >= 5
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code == (0 if result.holds else 8)


def test_every_altered_number_is_found(honest):
    path, content = honest
    other = path.with_name("altered.json")
    places = list(numbers(content))
    assert len(places) > 10
    for place in places:
        if place == ("format",):
            continue
        other.write_text(json.dumps(altered(content, place, 1e-3)))
        assert pml.verify(other).failures, place


CLAIMS = {
    "upper": -1e-4,
    "lower": 1e-4,
    "maximal_leakage": 1e-4,
    "largest_leakage": -1e-4,
    "delta": -0.3,
    ("noise", "sigma"): -1e-3,
    ("if_alpha_is_wrong", "half_alpha"): -1e-3,
    ("if_alpha_is_wrong", "dp"): -1e-3,
    ("noise", "parameter"): -1e-3,
    ("guarantee", "epsilon"): -1e-3,
    ("guarantee", "delta"): -1e-3,
    ("guarantee", "alpha"): -1e-2,
    ("guarantee", "sample", "radius"): -1e-6,
    ("guarantee", "sample", "confidence"): 1e-5,
    ("guarantee", "sample", "counts", 2): 1,
    ("guarantee", "alpha", 2): 1e-6,
}


def test_negative_scales_are_found(honest):
    path, content = honest
    other = path.with_name("forged.json")
    for name in ("parameter", "sigma"):
        if content.get("noise", {}).get(name):
            forged = {**content, "noise": {**content["noise"], name: -content["noise"][name]}}
            forged[KEY] = {**content[KEY], OBJECT: digest_of_object(forged)}
            other.write_text(json.dumps(forged))
            assert pml.verify(other).failures, name


def test_shorter_distances_are_found(honest):
    path, content = honest
    if "distances" not in content:
        return
    other = path.with_name("forged.json")
    rows = content["distances"]["to_later_cells"]
    rows = [" ".join(repr(1.02 * float(word)) for word in row.split()) for row in rows]
    forged = {**content, "distances": {**content["distances"], "to_later_cells": rows}}
    forged[KEY] = {**content[KEY], OBJECT: digest_of_object(forged)}
    other.write_text(json.dumps(forged))
    failed = {check.name for check in pml.verify(other).failures}
    assert {"guarantee", "half alpha", "without alpha"} <= failed


def test_a_manifest_of_many_cells_has_one_row_of_distances(tmp_path):
    strategy = pml.mechanism("identity", "marginals:3,4,3,ways=1", guarantee=pml.PML(1, 0.01))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmldesign.releases.manifest.LISTED_CELLS", 8)
        content = pml.release(strategy, np.ones(36, dtype=int)).manifest
        assert "distances" not in content
    profile = DistanceProfile(np.array([2.0]), np.array([35.0]), 1.0, 36.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Strategy, "distance_profile", lambda self, norm: profile)
        published = pml.release(strategy, np.ones(36, dtype=int))
    content = published.manifest
    assert content["distances"]["cells"] == [1, 35]
    path = tmp_path / "m.csv"
    Release(published.table, content).save(path)
    result = pml.verify(path)
    assert not result.failures
    assert "guarantee" in {check.name for check in result.checks}


def test_claims_with_a_digest_that_fits_are_computed(honest):
    path, content = honest
    other = path.with_name("forged.json")
    places = [(name,) if isinstance(name, str) else name for name in CLAIMS]
    sampled = "sample" in content.get("guarantee", {})  # else nothing tells alpha but the loss
    places = [place for place in places if sampled or place[:2] != ("guarantee", "alpha")]
    places += [] if sampled else [("guarantee", "alpha")]
    present = [place for place in places if place in set(numbers(content))]
    assert len(present) >= 2
    for place in present:
        key = place[0] if len(place) == 1 else place
        forged = altered(content, place, CLAIMS[key])
        forged[KEY][OBJECT] = digest_of_object(forged)
        other.write_text(json.dumps(forged))
        assert pml.verify(other).failures, place


def test_other_files(tmp_path):
    path = tmp_path / "a.json"
    for text in ("{}", "[]", "no", '{"format": 1}'):
        path.write_text(text)
        with pytest.raises(FileError):
            pml.verify(path)
    path.write_text('{"format": 1, "lattice": 3, "sha256": {}}')
    assert pml.verify(path).failures
