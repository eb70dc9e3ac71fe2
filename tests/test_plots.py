"""Pictures: the formats, what they show, and what is refused."""

import math
import xml.etree.ElementTree as ET

import pytest

import pmldesign.plots
from pmldesign.comparison import compare
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.plots import check_plot_path, plot_comparison


@pytest.fixture(scope="module")
def shown():
    return compare("prefix:4", ["tree", "identity"], p=[2, 4, math.inf])


@pytest.mark.parametrize(
    ("name", "magic"), [("e.png", b"\x89PNG\r\n"), ("e.PDF", b"%PDF-"), ("e.svg", b"<?xml")]
)
def test_formats(tmp_path, shown, name, magic):
    plot_comparison(shown, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def text_of(path):
    """The comments in which matplotlib keeps the text that it draws as shapes."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    return [node.text.strip() for node in ET.parse(path, parser).iter(ET.Comment)]


def test_every_strategy_and_p_is_named(tmp_path, shown):
    plot_comparison(shown, tmp_path / "several.svg")
    drawn = text_of(tmp_path / "several.svg")
    assert {"tree", "identity", "prefix:4", "2", "4", "\u221e"} <= set(drawn)


def test_bars_carry_their_errors(tmp_path):
    one = compare("prefix:4", ["identity", "workload"])
    plot_comparison(one, tmp_path / "one.svg")
    drawn = text_of(tmp_path / "one.svg")
    # unit noise on each cell: sqrt(1 + 2 + 3 + 4); noise sqrt 4 on four sums: 4
    assert {"identity", "workload", f"{math.sqrt(10):.4g}", "4"} <= set(drawn)


def test_paths_are_checked_before_long_work(tmp_path, monkeypatch):
    with pytest.raises(FileError, match=r"ends in \.png, \.pdf, \.svg"):
        check_plot_path(tmp_path / "e.gif")
    with pytest.raises(FileError, match="there is no folder"):
        check_plot_path(tmp_path / "none" / "e.png")
    monkeypatch.setattr(pmldesign.plots, "find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match=r"pip install 'pmldesign\[plot\]'"):
        check_plot_path(tmp_path / "e.png")
    assert list(tmp_path.iterdir()) == []
