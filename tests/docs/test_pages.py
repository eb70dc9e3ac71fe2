"""Pages of the documentation: their examples, options, links, anchors and tables."""

import importlib
import re
import runpy

import pytest
from blocks import PAGES, ROOT, Page, difference, numbered_blocks, run_command

import pmldesign as pml
from pmldesign.cli import COMMANDS


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    """A page with its folder, the same for all of its blocks."""
    pages = {}

    def page(path):
        if path not in pages:
            pages[path] = Page(path, tmp_path_factory.mktemp(path.stem))
        return pages[path]

    return page


pytestmark = pytest.mark.full_work
BLOCKS = [*numbered_blocks()]


@pytest.mark.parametrize(
    ("path", "number"),
    [(path, number) for path, number, _ in BLOCKS],
    ids=[f"{path.relative_to(ROOT)}:{line}" for path, _, line in BLOCKS],
)
def test_a_block_does_what_is_shown(path, number, opened, unarranged):
    found = opened(path).check(number)
    if found:
        pytest.fail(found, pytrace=False)


def test_a_wrong_number_or_word_is_noticed():
    assert difference("error 1.00001, 0.31 s\n", "error   1.00000, 2.5 s\n") == ""
    assert "the page has 1.0, now 1.001" in difference("error 1.001, 2.5 s", "error 1, 2.5 s")
    for printed in ("mistake 1, 2.5 s", "error 1 2, 2.5 s", "error 1, 2.5 s\nmore", ""):
        assert difference(printed, "error 1, 2.5 s")


SUBCOMMANDS = (
    *("schema draft", "schema check", "schema sql"),
    *("ledger show", "ledger plan", "ledger export"),
)


@pytest.fixture(scope="module")
def reference():
    return runpy.run_path(str(ROOT / "docs" / "commands.py"))["pages"]()


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_the_reference_has_every_option_of_a_command(command, reference):
    if command in ("schema", "ledger"):
        return
    page = reference[command.replace(" ", "-")]
    for option in re.findall(r"--[a-z-]+", run_command(f"pmldesign {command} --help", ROOT)):
        assert f"`{option}" in page or f"{option}`" in page or f" {option}" in page, option


LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s:]*)\)")
OTHERS = [ROOT / name for name in ("CONTRIBUTING.md",)]


def anchors_of(page):
    """The anchors of the headings of a page, as the site makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,4} (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_anchors_that_exist(page, reference):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "code", text)):
        target, _, anchor = link.partition("#")
        there = page if not target else (page.parent / target).resolve()
        generated = there.parent.name == "commands" and there.stem in reference
        drawn = "pictures/" in target or generated  # made when the site is built
        assert drawn or there.exists(), f"{link}: there is no such file"
        if anchor and there.suffix == ".md":
            assert anchor in anchors_of(there), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_whole(page):
    """Every row has as many cells as its header, and no blank line cuts a table."""
    fenced, columns, before = False, 0, ""
    for line in page.read_text().splitlines():
        fenced ^= line.startswith("```")
        row = line.startswith("|") and not fenced
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "code", line))) - 1
        if row and columns:
            assert cells == columns, line
        elif row and re.fullmatch(r"\|[-|: ]+\|", line):
            columns = cells
            assert cells == len(re.findall(r"(?<!\\)\|", before)) - 1, before
        elif row:
            assert not re.match(r"\| `--", line), f"a row without its header: {line}"
        columns = columns if row else 0
        before = re.sub(r"`[^`]*`", "code", line)


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_public_name_that_a_page_mentions_exists(page):
    names = re.findall(r"\bpml\.(?!md\b)(\w+)", page.read_text())
    assert not {name for name in names if not hasattr(pml, name)}


NAME = re.compile(r"(?<![\w/~.-])pmldesign(?:_solvers)?(?:\.[A-Za-z_]\w*)+(?![\w/-])")
"""A module or what is in one, and no address or file."""
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
"""Pages outside of the site."""


def test_every_name_of_the_packages_that_a_page_mentions_exists():
    found = {
        name
        for page in [*PAGES, *(ROOT / other for other in BESIDE)]
        for name in NAME.findall(page.read_text())
    }
    assert "pmldesign_solvers.search.tents" in found
    assert not {name for name in found - {"pmldesign.fish"} if not is_there(name)}
    assert not is_there("pmldesign.bounds.error")


def is_there(name):
    value = None
    for place, part in enumerate(parts := name.split(".")):
        if not hasattr(value, part):
            try:
                value = importlib.import_module(".".join(parts[: place + 1]))
            except ImportError:
                return False
        else:
            value = getattr(value, part)
    return True


def test_every_page_is_in_the_site_and_every_public_name_in_the_reference():
    index = (ROOT / "docs" / "index.md").read_text().splitlines()
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.name != "README.md"}
    assert {page.removesuffix(".md") for page in pages} - {"index"} <= set(index)
    reference = (ROOT / "docs" / "reference" / "python.md").read_text()
    named = set(re.findall(r":: pmldesign\.(\w+)", reference))
    assert named == set(dir(pml)) - {"__version__"}
