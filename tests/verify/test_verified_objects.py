"""`verify` on manifests of releases and certificates of envelopes."""

import json

import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError
from pmldesign.verify.digest import KEY, OBJECT, digest_of_object

SCHEMA = {"attributes": [{"name": "sex", "keys": ["F", "M"]}, {"name": "b", "keys": [1, 2, 3]}]}


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words], prog_name="pmldesign")
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module", params=["gaussian", "laplace", "envelope"])
def honest(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "envelope":
        path = folder / "certificate.json"
        prior = "0.3,0.3,0.2,0.1,0.1"
        words = ("laplace:5,scale=1,cells=8", "--prior", prior, "--delta", 0.2)
        run("envelope", *words, "--certificate", path)
        return path, json.loads(path.read_text())
    people, schema = folder / "people.csv", folder / "schema.json"
    people.write_text("sex,b\nF,1\nM,2\nF,3\n")
    schema.write_text(json.dumps(SCHEMA))
    words = ("--schema", schema, "--epsilon", 1, "--noise", request.param, "-o", folder / "t.csv")
    delta = ("--delta", 1e-6) if request.param == "gaussian" else ()
    run("release", "sex*b", people, *words, *delta)
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
    result = pml.verify_file(path)
    assert result.holds, result.failures
    assert len(result.checks) - len(result.unchecked) >= 5
    assert run("verify", path).exit_code == 0


def test_every_altered_number_is_found(honest):
    path, content = honest
    other = path.with_name("altered.json")
    places = list(numbers(content))
    assert len(places) > 10
    for place in places:
        if place == ("format",):
            continue
        other.write_text(json.dumps(altered(content, place, 1e-3)))
        assert not pml.verify_file(other).holds, place


CLAIMS = {
    "upper": -1e-4,
    "lower": 1e-4,
    "maximal_leakage": 1e-4,
    "largest_leakage": -1e-4,
    "delta": -0.3,
    ("noise", "sigma"): -1e-3,
    ("noise", "parameter"): -1e-3,
    ("guarantee", "epsilon"): -1e-3,
    ("guarantee", "delta"): -1e-3,
}


def test_claims_with_a_digest_that_fits_are_computed(honest):
    path, content = honest
    other = path.with_name("forged.json")
    places = [(name,) if isinstance(name, str) else name for name in CLAIMS]
    present = [place for place in places if place in set(numbers(content))]
    assert len(present) >= 2
    for place in present:
        key = place[0] if len(place) == 1 else place
        forged = altered(content, place, CLAIMS[key])
        forged[KEY][OBJECT] = digest_of_object(forged)
        other.write_text(json.dumps(forged))
        assert not pml.verify_file(other).holds, place


def test_other_files(tmp_path):
    path = tmp_path / "a.json"
    for text in ("{}", "[]", "no", '{"format": 1}'):
        path.write_text(text)
        with pytest.raises(FileError):
            pml.verify_file(path)
    path.write_text('{"format": 1, "lattice": 3, "sha256": {}}')
    assert not pml.verify_file(path).holds
