"""Every command and every piece of Python in the documentation does what is shown."""

import importlib
import math
import re

import pytest
from doc_blocks import BLOCK, PAGES, ROOT, commands, run_command, run_python

import pmldesign as pml
from pmldesign.cli import COMMANDS

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\binf\b)")
GAP = re.compile(r"gap (?:is )?(\d[\d.e+-]*\d)")
# How long it took, how close the bounds came and what rounding left differ between machines.
MASKS = [
    (r"[\d.]+ s\b", "# s"),
    (r"(?m)^search .*$", "search #"),
    (r"\d+ steps?\b", "# steps"),
    (r"\d+ eigendecompositions?\b", "# eigendecompositions"),
    (r"gap (is )?[\d.e+-]+", r"gap \1#"),
    (r"but for [\d.e-]+ of its rows", "but for # of its rows"),
    # of the strategies with the least largest error, their sums of squares differ
    (r"rmse [\d.]+(, max std [\d.]+; the tightest)", r"rmse #\1"),
]


def normal(text):
    """The text without widths of columns, and its numbers."""
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    words = [" ".join(line.split()) for line in text.splitlines()]
    joined = "\n".join(line for line in words if line)
    return NUMBER.sub("<number>", joined), [float(found) for found in NUMBER.findall(joined)]


def assert_same(printed, shown):
    words, numbers = normal(printed)
    expected_words, expected = normal(shown)
    assert words == expected_words
    # six digits are shown, of bounds that are known to a relative 1e-6, or to the gap that is shown
    close = max(2e-5, *(min(float(gap), 0.01) for gap in ["0", *GAP.findall(shown)]))
    assert all(math.isclose(a, b, rel_tol=close) for a, b in zip(numbers, expected, strict=True))


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_examples(page, tmp_path, unarranged):
    names = {}
    for block in BLOCK.finditer(page.read_text()):
        if block["kind"] == "python":
            assert_same(run_python(block["body"], names, tmp_path), block["text"] or "")
            continue
        for line, shown in commands(block["body"]):
            assert_same(run_command(line, tmp_path), shown)


def test_a_wrong_number_or_word_is_noticed():
    assert_same("error 1.00001, 0.31 s\n", "error   1.00000, 2.5 s\n")
    for printed in ("error 1.001, 2.5 s", "mistake 1, 2.5 s", "error 1 2, 2.5 s"):
        with pytest.raises(AssertionError):
            assert_same(printed, "error 1, 2.5 s")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_place_in_the_page_of_its_command(command):
    page = (ROOT / "docs" / f"{command}.md").read_text()
    for option in re.findall(r"--[a-z-]+", run_command(f"pmldesign {command} --help", ROOT)):
        assert f"`{option}" in page or f"--{option[2:]}`" in page, option


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            drawn = target.startswith("pictures/")  # when the site is built
            assert drawn or (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_public_name_is_in_the_manual():
    page = (ROOT / "docs" / "python.md").read_text()
    written = set(re.findall(r"[A-Za-z_0-9]+", " ".join(re.findall(r"`[^`\n]+`|pml\.\w+", page))))
    assert not set(pml.__all__) - written
    missing = {name for name in re.findall(r"\bpml\.(\w+)", page) if not hasattr(pml, name)}
    assert not missing


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
    assert {"pmldesign.error_bounds", "pmldesign_solvers.search.tents"} <= found
    assert not {name for name in found - {"pmldesign.fish"} if not is_there(name)}
    assert not is_there("pmldesign.bounds.bounds")


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
    pages = {page.stem for page in PAGES if page.parent.name == "docs"} - {"index"}
    assert pages == pages & set(index)
    reference = (ROOT / "docs" / "reference.md").read_text()
    named = set(re.findall(r":: pmldesign\.(\w+)", reference))
    assert named == set(pml.__all__) - {"__version__", "BASELINES"}
