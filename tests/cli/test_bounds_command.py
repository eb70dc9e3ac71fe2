import json
import math

import pytest
from click.testing import CliRunner

from pmldesign.cli import main


def run(*arguments):
    return CliRunner().invoke(main, ["bounds", *arguments])


def test_json_lists_every_bound_with_its_conditions():
    result = run("prefix:64", "--epsilon", "0.1", "--delta", "1e-6", "--json")
    assert result.exit_code == 0
    found = {bound["name"]: bound for bound in json.loads(result.stdout)}
    for bound in found.values():
        assert bound["holds"] == (bound["value"] is not None)
        assert bound["reason"]
        assert bound["source"]
        assert bound["mechanisms"]
    lower, published = found["least variance"]["value"], found["Theorem 2.1 for all"]["value"]
    assert lower >= 10 * published
    assert lower <= found["least-norm, gaussian noise"]["value"]
    assert not found["staircase"]["holds"]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_table_shows_what_holds_and_why_the_rest_does_not(neighbours):
    result = run("histogram:4", "--epsilon", "1", "--neighbours", neighbours, "--p", "inf")
    assert result.exit_code == 0
    # one count: 1/(sqrt 2 sinh(1/2)) times the norm, 1 or sqrt(2 (n - 1)/n) = sqrt(3/2)
    norm = 1.0 if neighbours == "add-remove" else math.sqrt(1.5)
    row = next(line for line in result.stdout.splitlines() if line.startswith("least variance"))
    assert float(row.split()[3]) == pytest.approx(norm / math.sqrt(2) / math.sinh(0.5), rel=2e-5)
    shown, refused = result.stdout.split("not applicable:")
    assert "Theorem 1.4" in refused
    assert ("staircase" in shown) == (neighbours == "add-remove")


def test_a_guarantee_is_needed():
    result = run("prefix:4")
    assert result.exit_code == 2
    assert "--epsilon" in result.stderr


def test_a_vacuous_guarantee_is_refused():
    assert run("histogram:4", "--epsilon", "3", "--alpha", "0.1").exit_code == 4


def test_reasons_are_whole_sentences_and_values_are_rounded_outwards():
    options = ["prefix:4", "--epsilon", "1", "--alpha", "0.2"]
    text, listed = run(*options).stdout, json.loads(run(*options, "--json").stdout)
    assert "or the delta that it implies is 1 or more" in text
    assert all(bound["guarantee_numbers"]["alpha"] == 0.2 for bound in listed)
    table = {line[: len(bound["name"])]: line for bound in listed for line in text.splitlines()}
    for bound in listed:
        if bound["value"] is not None and bound["kind"] == "lower":
            shown = float(table[bound["name"]].split("lower")[1].split()[0])
            assert shown <= bound["value"]
