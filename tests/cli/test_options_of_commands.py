"""Options of commands as classes: what a field becomes, and what a command gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pmldesign.cli import (
    Document,
    Outputs,
    Section,
    Table,
    argument,
    as_command,
    given,
    group,
    option,
)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A group."""

    rel_gap: float = option("A gap.", default=0.5)
    note: str | None = option("A note.", "-n", "--note")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All kinds of fields."""

    file: Path = argument(click.Path(path_type=Path))
    scale: float = option("A scale.", required=True)
    steps: int | None = option("Steps.", check=lambda steps: seen.append(steps))
    quick: bool = option("A flag.")
    names: tuple[str, ...] = option("Names.", multiple=True, type=str)
    shared: Shared = group(rel_gap={"default": 2.0, "more": " Or another."}, note=None)


seen: list[object] = []


@pytest.fixture
def run():
    """What a command gets of these words, and its result."""
    found = []

    @as_command("try", Asked)
    def command(asked: Asked) -> None:
        """Try it."""
        found.append((asked, given("rel_gap")))

    def call(*words):
        found.clear()
        result = CliRunner().invoke(command, [*words])
        return result, *found

    return call


def test_fields_have_their_types_and_groups_their_options(run):
    words = ("a.csv", "--scale", "2", "--quick", "--names", "x", "--names", "y", "--rel-gap", "3")
    _, (asked, by_user) = run(*words)
    assert asked == Asked(
        file=Path("a.csv"),
        scale=2.0,
        steps=None,
        quick=True,
        names=("x", "y"),
        shared=Shared(rel_gap=3.0),
    )
    assert by_user


def test_defaults_are_those_of_the_place_of_a_group(run):
    _, (asked, by_user) = run("a.csv", "--scale", "1")
    assert asked.shared == Shared(rel_gap=2.0, note=None)
    assert not by_user
    assert not asked.quick


@pytest.mark.parametrize("words", [("a.csv",), ("--scale", "1"), ("a.csv", "--scale", "x")])
def test_what_is_missing_or_no_number_is_refused(run, words):
    result, *found = run(*words)
    assert (result.exit_code, found) == (2, [])


def test_what_a_group_leaves_out_is_no_option(run):
    result, *found = run("a.csv", "--scale", "1", "--note", "x")
    assert (result.exit_code, found) == (2, [])
    shown, *_ = run("--help")
    assert "--note" not in shown.output
    assert "A gap. Or another.  [default: 2.0]" in " ".join(shown.output.split(" "))


def test_a_value_is_checked_where_it_is_given(run):
    seen.clear()
    run("a.csv", "--scale", "1")
    assert seen == []
    run("a.csv", "--scale", "1", "--steps", "4")
    assert seen == [4]


def test_a_document_is_text_or_json_and_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = Table(["name", "value"], [["a", 0.125], ["b", None]], records=[{"value": 0.125}])
    facts = Section(title="Not known", facts=[("b", "why")])
    document = Document({"value": 0.125}, [Section(tables=[table]), facts], table)
    Outputs(table=Path("t.tex")).deliver(document)
    capsys.readouterr()
    Outputs(table=Path("t.csv")).deliver(document)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [["name", "value"], ["a", "0.125"], ["b", "-"], [], ["not", "known:"],
                     ["b", "why"]]  # fmt: skip
    assert Path("t.csv").read_text() == "value\n0.125\n"
    assert r"a & 0.125 \\" in Path("t.tex").read_text()
    Outputs(json=True).deliver(document)
    assert capsys.readouterr().out == '{\n  "value": 0.125\n}\n'
