"""Pictures and tables of objects, as notebooks and papers have them."""

import sys
import types

import numpy as np
import pytest

import pmldesign as pml

DP = pml.ApproxDP(1, 1e-6)


@pytest.fixture(scope="module")
def table():
    return pml.compare("prefix:4", strategies=["least-norm", "tree", "identity"], guarantee=DP)


def test_the_heat_map_has_the_entries_of_the_strategy():
    strategy = pml.strategy("haar", "prefix:8")
    left, right = (axes.images[0] for axes in pml.plots.plot(strategy).axes[:2])
    assert np.array_equal(left.get_array(), strategy.matrix)
    assert np.allclose(right.get_array(), strategy.matrix.T @ strategy.matrix)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (3, 3), (40, 7)])
def test_rows_and_cells_have_whole_numbers(shape):
    """A row at 0 was labelled -0.5, 0.0 and 0.5."""
    heat = pml.plots.plot(pml.Strategy("s", np.ones(shape) + np.eye(*shape))).axes[0]
    line = pml.plots.plot(pml.mechanism("identity", f"prefix:{shape[1] + 1}")).axes[0]
    ticks = [*heat.get_xticks(), *heat.get_yticks(), *line.get_xticks()]
    assert all(tick == round(tick) for tick in ticks)


def test_a_large_matrix_keeps_its_largest_entries():
    matrix = np.zeros((600, 500))
    matrix[599, 3], matrix[5, 499] = -2.0, 1.0
    (image,) = pml.plots.plot(pml.strategy(matrix)).axes[0].images
    assert max(image.get_array().shape) <= 256
    assert image.get_array().min() == -2
    assert image.get_array().max() == 1


def test_the_picture_of_a_mechanism_is_the_deviation_of_every_query():
    noisy = pml.mechanism(np.eye(4), "prefix:4", guarantee=DP)
    (line,) = pml.plots.plot(noisy).axes[0].lines
    # four independent counts: variances 1, 2, 3 and 4 of one
    deviations = np.asarray(line.get_ydata())
    assert deviations / deviations[0] == pytest.approx(np.sqrt([1, 2, 3, 4]))


@pytest.mark.parametrize("guarantee", [DP, pml.PureDP(3)])
def test_the_region_out_of_reach_ends_at_the_largest_lower_bound(guarantee):
    bounds = pml.bounds("histogram:4", guarantee=guarantee)
    axes = bounds.plot().axes[0]
    (region,) = axes.patches
    # at epsilon 3 the staircase is above the geometric noise that counts of records may have
    (largest,) = (b.value for b in bounds if b.name == "least variance")
    assert region.get_x() + region.get_width() == pytest.approx(largest)
    assert bounds.best.value == largest
    assert bounds.to_frame()["value"].max() == max(bound.value or 0 for bound in bounds)
    assert len(axes.lines) == sum(1 for bound in bounds if bound.value)
    (label,) = (text.get_text() for text in axes.figure.texts)
    assert "every mechanism, worst case over data of any size" in label


def test_no_region_is_called_shaded_where_no_bound_is_for_every_mechanism():
    bounds = pml.bounds("histogram:4", guarantee=pml.PML(1.0, 0.1))
    assert any(bound.value for bound in bounds)
    figure = pml.plots.plot(bounds)
    assert not figure.axes[0].patches
    assert "shaded" not in figure.get_supxlabel()


def test_a_frame_has_every_column(table):
    frame = table.to_frame()
    assert [*frame.columns] == [*table.to_records()[0]]
    assert [*frame["error"]] == [row.error for row in table.rows]


def test_a_latex_table_has_a_line_for_each_row(table):
    text = table.to_latex()
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrrr}"
    assert [line for line in lines if line.startswith("tree & 2 & ")]
    assert text.count(r"\\") == 1 + len(table.rows)
    assert "%" not in text.replace(r"\%", "")


def test_a_comparison_draws_itself(table):
    names = [label.get_text() for label in table.plot().axes[0].get_yticklabels()]
    assert {name.partition(" ")[0] for name in names} == {"least-norm", "tree", "identity"}


def test_a_sweep_draws_errors_over_the_cells_of_each_family(tmp_path):
    study = {"workloads": ["histogram:{n}", "total:{n}"], "n": [4, 9], "strategies": ["identity"]}
    figure = pml.sweep(study, tmp_path / "rows.sqlite").plot()
    heights = {axes.get_title(): [*axes.lines[0].get_ydata()] for axes in figure.axes}
    assert figure.axes[0].get_xlabel() == "cells n"
    # errors sqrt(n) of n queries are 1 each; a total is one query of error sqrt(n)
    assert heights["histogram:n"] == pytest.approx([1, 1])
    assert heights["total:n"] == pytest.approx([2, 3])


@pytest.mark.parametrize("guarantee", [pml.ZCDP, pml.GaussianDP])
def test_errors_over_a_budget_fall(guarantee):
    tables = [
        pml.compare("prefix:3", strategies=["tree"], guarantee=guarantee(b)) for b in (0.5, 2)
    ]
    axes = pml.plots.plot(tables).axes[0]
    assert axes.get_xlabel() == (r"$\rho$" if guarantee is pml.ZCDP else r"$\mu$")
    high, low = np.asarray(axes.lines[0].get_ydata())
    assert high / low == pytest.approx(2 if guarantee is pml.ZCDP else 4, rel=1e-4)


def test_the_picture_of_a_budget_is_that_of_its_mechanism():
    budget = pml.least_budget("histogram:3", pml.ZCDP(1), targets=2, noise="gaussian")
    (line,) = budget.plot().axes[0].lines
    assert np.asarray(line.get_ydata()) == pytest.approx([2, 2, 2], rel=1e-4)


def test_delta_of_noise_over_epsilon():
    noisy = pml.mechanism(np.eye(4), "histogram:4", guarantee=DP, noise="gaussian")
    (line,) = noisy.privacy.plot().axes[0].lines
    epsilons, deltas = np.asarray(line.get_data())
    assert np.interp(1.0, epsilons, np.log(deltas)) == pytest.approx(np.log(1e-6), rel=1e-4)


def test_an_envelope_curve_draws_itself():
    channel = pml.envelope.Channel(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0.5, 0.5]))
    (line,) = pml.envelope.envelope_curve(channel, [0.25, 0.5]).plot().axes[0].lines
    # both outputs leak log(0.75/0.5), as long as an outcome of this probability may be hidden
    assert np.asarray(line.get_ydata())[0] == pytest.approx(np.log(1.5), abs=1e-6)


@pytest.mark.parametrize("cells", [4, 80])
def test_a_release_shows_estimates_within_their_intervals(cells):
    counts = np.arange(cells) * 10
    noisy = pml.mechanism("identity", f"histogram:{cells}", guarantee=pml.PureDP(1))
    release = noisy.release(counts)
    axes = release.plot().axes[0]
    (line,) = axes.lines
    shown = np.asarray(line.get_xdata() if cells == 4 else line.get_ydata())
    assert np.array_equal(shown, release.table.estimate)
    (area,) = axes.collections
    edges = np.concatenate([path.vertices for path in area.get_paths()])[:, 0 if cells == 4 else 1]
    assert edges.min() == release.table.lower.min()
    assert edges.max() == release.table.upper.max()
    if axes.yaxis_inverted():  # the first and the last name stand off the border
        assert axes.get_ylim() == (cells - 0.5, -0.5)


def test_everything_optimized_draws_the_best_mechanism():
    result = pml.optimize("prefix:3", DP, noise="gaussian")
    (line,) = result.plot().axes[0].lines
    assert np.array_equal(line.get_ydata(), result.best.standard_deviations)


class Notebook(types.ModuleType):
    """What is used of IPython in a kernel."""

    kernel = object()

    def __init__(self):
        super().__init__("IPython")
        self.display, self.shown = self, []

    def get_ipython(self):
        return self

    def __call__(self, content, **options):
        assert options == {"raw": True, "display_id": True}
        self.shown.append(content["text/plain"])
        return self

    def update(self, content, **options):
        self.shown.append(content["text/plain"])


def test_progress_in_a_notebook_is_one_line(monkeypatch, capsys):
    notebook = Notebook()
    notebook.display = types.SimpleNamespace(display=notebook)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    design = pml.factorize("prefix:16", callback=pml.plots.progress())
    assert len(notebook.shown) == design.steps
    assert notebook.shown[-1].startswith(f"step {design.steps}: between ")
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_there_is_no_progress(capsys):
    pml.plots.progress()("step 1")
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_replaces_its_line(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = pml.plots.progress()
    show("step 1")
    show("step 2")
    assert capsys.readouterr().err == "\r\033[Kstep 1\r\033[Kstep 2"


@pytest.mark.parametrize("shown", [3, "prefix:4", [], None])
def test_what_has_no_picture_is_refused(shown):
    with pytest.raises(pml.InvalidInputError, match="there is no picture of"):
        pml.plots.plot(shown)


def test_designs_show_the_error_of_each_in_a_line_and_in_a_table():
    result = pml.optimize("histogram:4", pml.ZCDP(0.5), noise="gaussian")
    # four counts, each with variance 1
    title, facts = repr(result).splitlines()
    assert title == "Design for 'histogram:4' of smallest err_2"
    assert facts.startswith("  least-norm with gaussian noise 2, for ZCDP(rho=0.5")
    assert "<td>least-norm with gaussian noise</td>" in result._repr_html_()
