"""--report: one file, valid, that says what --json says."""

import csv
import json
import re
from contextlib import chdir
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from pmldesign.cli import main

VOID = {"meta", "br", "hr", "img", "link", "input"}
DP = ("--epsilon", "1", "--delta", "1e-6")
COMMANDS = {
    "compare": ("compare", "prefix:4..8", "--strategies", "least-norm,tree", *DP),
    "target": (
        "target",
        "prefix:6",
        "--std",
        "5",
        "--guarantee",
        "zcdp",
        "--noise",
        "gaussian",
    ),
}


class Page(HTMLParser):
    """Insists on closed elements, names that differ, and nothing from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names, self.numbers, self.words = [], [], [], []
        self.feed(text)
        assert self.open == []
        assert len(self.names) == len(set(self.names))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert tag not in ("script", "iframe", "object")
        assert len(attributes) == len(attrs)
        if "id" in attributes:
            self.names.append(attributes["id"])
        for key in ("src", "href", "xlink:href"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
        if tag == "data":
            self.numbers.append(float(attributes["value"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def numbers_of(document):
    """Every number of the rows that --json prints."""
    if isinstance(document, list):
        return [number for entry in document for number in numbers_of(entry)]
    if "strategies" in document:
        budget = document.get(document.get("currency"), {})
        rows = [budget, *document["strategies"]]
        return [value for row in rows for value in row.values() if isinstance(value, float)]
    if "holds" in document:
        return [document["value"]] if document["holds"] else []
    return [value for value in document.values() if isinstance(value, float)]


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """What --json prints for each command, and its report; made once."""

    @cache
    def made(name):
        with chdir(tmp_path_factory.mktemp(name)), pytest.MonkeyPatch.context() as patch:
            if name != "compare":
                undraw(patch)
            words = [*COMMANDS[name], "--report", "report.html", "--json"]
            answer = CliRunner().invoke(main, words, prog_name="pmldesign")
            return json.loads(answer.stdout), Path("report.html").read_text(encoding="utf-8")

    return made


def undraw(patch):
    """Leave pictures out, which take a second each, where others see that they are in the page."""
    patch.setattr("pmldesign.cli.documents.page.svg_text", lambda figure: "<svg></svg>")


@pytest.fixture
def undrawn(monkeypatch):
    undraw(monkeypatch)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_says_what_json_says(reported, name):
    words = COMMANDS[name]
    shown, text = reported(name)
    assert text.startswith("<!DOCTYPE html>")
    assert len(text) < 2**21
    page = Page(text)
    expected = numbers_of(shown)
    assert expected
    assert set(expected) <= set(page.numbers)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    said = " ".join(" ".join(page.words).split())
    guarantees = {
        entry.get("guarantee") for entry in (shown if isinstance(shown, list) else [shown])
    }
    for sentence in guarantees - {None}:
        assert " ".join(sentence.split()) in said
    assert "pmldesign " + words[0] in said
    assert "<svg" in text


def test_the_command_line_in_a_report_gives_the_same_report(run, undrawn):
    words = ("target", "prefix:3*prefix:2", "--std", "5", "--delta", "1e-6", "-o", "best.npz")
    run(*words, "--noise", "gaussian", "--report", "report.html")
    first = Path("report.html").read_text()
    (line,) = re.findall(r"<code>(.*)</code>", first)
    run(*line.split()[1:])
    # how close the bounds came, and nothing else, may depend on the run
    assert Path("report.html").read_text() == first
    assert "pmldesign verify best.npz" in first


def test_what_a_name_holds_is_escaped(run, undrawn):
    Path("<b>.csv").write_text("1,0\n0,1\n")
    assert run("compare", "<b>.csv", "--report", "report.html").exit_code == 0
    page = Path("report.html").read_text()
    assert "<b>" not in page
    assert "&lt;b&gt;.csv" in page


def test_the_report_of_a_release_has_what_was_published(run, undrawn):
    Path("people.csv").write_text("sex,age\nF,31\nM,17\nF,64\nM,45\nF,8\n")
    Path("schema.json").write_text(
        '{"attributes": [{"name": "sex", "keys": ["F", "M"]}, {"name": "age", "cuts": [0, 9, 99]}]}'
    )
    options = ("--schema", "schema.json", "--effort", "quick", "-o", "t.csv")
    shown = run("release", "sex*age", "people.csv", *DP, *options, "--report", "report.html")
    assert shown.exit_code == 0, shown.stderr
    assert "t.csv, report.html and t.manifest.json" in shown.stdout
    page = Page(Path("report.html").read_text(encoding="utf-8"))
    with Path("t.csv").open(newline="") as handle:
        rows = [*csv.DictReader(handle)]
    published = [
        float(row[key]) for row in rows for key in ("estimate", "standard_deviation", "lower")
    ]
    assert len(rows) == 4
    assert set(published) <= set(page.numbers)
    said = " ".join(" ".join(page.words).split())
    manifest = json.loads(Path("t.manifest.json").read_text())
    assert manifest["guarantee"]["words"] in said
    assert manifest["sha256"]["workload"] in said
    assert all(row["estimate"] in said for row in rows)


def test_a_report_needs_no_schema(run, undrawn):
    Path("h.csv").write_text("3\n0\n")
    options = ("--effort", "quick", "-o", "t.csv", "--report", "report.html")
    shown = run("release", "prefix:2", "h.csv", *DP, *options)
    assert shown.exit_code == 0, shown.stderr
    assert "sha256 of the workload" in Path("report.html").read_text()
    assert "sha256 of the schema" not in Path("report.html").read_text()


def test_a_broad_table_is_printed_across(reported):
    _, page = reported("compare")
    assert page.count('<section class="broad">') == 1
    assert ".broad { page: broad; }" in page


def test_a_report_that_cannot_be_written_is_refused_first(run):
    shown = run("compare", "prefix:4", "--report", "report.pdf")
    assert (shown.exit_code, shown.stdout) == (6, "")
    assert "a report ends in .html" in shown.stderr
