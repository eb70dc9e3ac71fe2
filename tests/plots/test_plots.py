"""Pictures: the formats, what they show, and what is refused."""

import math
import xml.etree.ElementTree as ET

import pytest
from matplotlib.axes import Axes

import pmldesign.plots.comparisons
import pmldesign.plots.pictures
from pmldesign.comparison import compare, compare_all
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.plots import check_plot_path, comparisons_figure, save
from pmldesign.privacy import PML, ApproxDP, PureDP


@pytest.fixture(scope="module")
def shown():
    return compare("prefix:4", strategies=["tree", "identity"], p=[2, 4, math.inf])


@pytest.mark.parametrize(
    ("name", "magic"), [("e.png", b"\x89PNG\r\n"), ("e.PDF", b"%PDF-"), ("e.svg", b"<?xml")]
)
def test_formats(tmp_path, shown, name, magic):
    save(comparisons_figure([shown]), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def text_of(path):
    """The text, and the comments in which matplotlib keeps formulas."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    tree = ET.parse(path, parser)
    nodes = [*tree.iter(ET.Comment), *tree.iter("{http://www.w3.org/2000/svg}text")]
    return [node.text.strip() for node in nodes if node.text]


def test_every_strategy_and_p_is_named(tmp_path, shown):
    save(comparisons_figure([shown]), tmp_path / "several.svg")
    drawn = text_of(tmp_path / "several.svg")
    assert {"tree (gaussian)", "identity (gaussian)", "prefix:4", "2", "4", "\u221e"} <= set(drawn)


def test_bars_carry_their_errors(tmp_path):
    one = compare("prefix:4", strategies=["identity", "workload"])
    save(comparisons_figure([one]), tmp_path / "one.svg")
    drawn = text_of(tmp_path / "one.svg")
    # unit noise on each cell: sqrt(1 + 2 + 3 + 4); noise sqrt 4 on four sums: 4
    assert {"identity (gaussian)", "workload (gaussian)", f"{math.sqrt(10):.4g}", "4"} <= set(drawn)


def test_lines_over_the_cells_of_a_family(tmp_path):
    names = ["prefix:4", "prefix:8", "prefix:16"]
    many = compare_all(names, ["tree", "least-norm"], p=[2, 4], guarantees=[PureDP(1.0)])
    save(comparisons_figure(many), tmp_path / "family.svg")
    drawn = text_of(tmp_path / "family.svg")
    assert {"prefix:n, p = 2", "prefix:n, p = 4", "4", "8", "16", "cells n"} <= set(drawn)
    # once for both panels
    assert drawn.count("lower bound") == drawn.count("tree (laplace)") == 1


@pytest.mark.parametrize(
    ("guarantees", "ticks", "title"),
    [
        ([PureDP(0.5), PureDP(3.0)], {"0.5", "3"}, "prefix:4"),
        ([PML(0.5, 0.125), PML(0.5, 0.0625)], {"0.125", "0.0625"}, "prefix:4"),
    ],
)
def test_lines_over_a_parameter(tmp_path, guarantees, ticks, title):
    many = compare_all(["prefix:4"], ["tree"], guarantees=guarantees)
    save(comparisons_figure(many), tmp_path / "lines.svg")
    assert {*ticks, title, "tree (laplace)"} <= set(text_of(tmp_path / "lines.svg"))


def test_workloads_that_are_no_family_have_panels(tmp_path):
    many = compare_all(["prefix:4", "haar:8", "window:8,3", "histogram:3"], ["tree", "identity"])
    save(comparisons_figure(many), tmp_path / "panels.svg")
    drawn = text_of(tmp_path / "panels.svg")
    assert {"prefix:4", "haar:8", "window:8,3", "histogram:3"} <= set(drawn)
    assert drawn.count("identity (gaussian)") == 4


def test_heights_are_errors_per_query(tmp_path, monkeypatch):
    drawn = {}
    plot = Axes.plot

    def record(axes, xs, ys, *arguments, **options):
        drawn[options["label"]] = (list(xs), list(ys))
        return plot(axes, xs, ys, *arguments, **options)

    monkeypatch.setattr(Axes, "plot", record)
    many = compare_all(["prefix:4", "prefix:8"], ["identity"], p=[2])
    save(comparisons_figure(many), tmp_path / "heights.png")
    # unit noise on each cell: root of the mean of 1 ... n
    assert drawn == {
        "identity (gaussian)": ([4, 8], pytest.approx([math.sqrt(2.5), math.sqrt(4.5)]))
    }


def test_bars_name_the_guarantee_and_show_the_bound(tmp_path):
    guarantee = ApproxDP(0.5, 1e-6, neighbours="replace")
    one = compare("prefix:4", strategies=["least-norm", "identity"], guarantee=guarantee)
    save(comparisons_figure([one]), tmp_path / "one.svg")
    drawn = text_of(tmp_path / "one.svg")
    said = "differential privacy, $\\varepsilon$ = 0.5, $\\delta$ = 1e-06, replace neighbours"
    assert said in drawn
    (shown,) = [float(text.split()[-1]) for text in drawn if text.startswith("lower bound")]
    bound = one.rows[0].lower_bound
    assert bound * (1 - 1e-3) < shown <= bound


@pytest.mark.parametrize("names", [["prefix:4", "haar:8"], ["prefix:4", "prefix:8"]])
def test_panels_have_one_scale(names):
    guarantees = [None] if names[1] == "haar:8" else [PureDP(0.1), PureDP(4.0)]
    many = compare_all(names, ["tree", "identity"], guarantees=guarantees)
    first, second = comparisons_figure(many).axes
    if guarantees == [None]:
        assert first.get_xlim() == second.get_xlim()
    else:
        assert first.get_ylim() == second.get_ylim()


def test_lines_say_their_p_and_several_noises():
    guarantees = [ApproxDP(0.5, 1e-6), ApproxDP(8.0, 1e-6)]
    many = compare_all(["histogram:8"], ["identity"], guarantees=guarantees)
    assert {row.noise for one in many for row in one.rows} == {"laplace", "integer-laplace"}
    (axes,) = comparisons_figure(many).axes
    assert axes.get_ylabel() == r"$\ell_{2}$ error per query"
    assert axes.get_legend_handles_labels()[1][0] == "identity (laplace or integer-laplace)"
    (axes,) = comparisons_figure(compare_all(["histogram:8"], ["tree"], p=[2, 4])).axes
    assert axes.get_ylabel() == r"$\ell_{p}$ error per query"


def test_too_many_panels_are_refused():
    many = compare_all([f"histogram:{n}" for n in range(1, 14)] + ["haar:2"], ["identity"])
    with pytest.raises(InvalidInputError, match="14 panels, at most 12"):
        comparisons_figure(many)


def test_paths_are_checked_before_long_work(tmp_path, monkeypatch):
    with pytest.raises(FileError, match=r"ends in \.png, \.pdf, \.svg"):
        check_plot_path(tmp_path / "e.gif")
    with pytest.raises(FileError, match="there is no folder"):
        check_plot_path(tmp_path / "none" / "e.png")
    monkeypatch.setattr(pmldesign.errors, "find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match=r"pip install '\.\[plot\]'"):
        check_plot_path(tmp_path / "e.png")
    assert list(tmp_path.iterdir()) == []
