"""Pictures of comparisons: bars, or lines over varying numbers, and words about both."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pmldesign.comparison.comparison import Comparison
from pmldesign.comparison.sweeping import Sweep
from pmldesign.designs.rows import PARAMETERS
from pmldesign.errors import InvalidInputError
from pmldesign.plots.pictures import BOUND, COLOURS, LINES, styled
from pmldesign.privacy.outward import at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter


AXES = ("cells", "epsilon", "rho", "mu", "alpha", "delta", "order", "p")
MARKERS = "osD^vP*X<>hpd123"
"""As many again as there are colours: from then on lines are dashed as well."""
LOWER = "lower bound"
MAX_PANELS = 12
"""On one page: smaller ones have no room for their labels."""
LABELS = {
    "cells": "cells n",
    "epsilon": r"$\varepsilon$",
    "alpha": r"$\alpha$",
    "delta": r"$\delta$",
    "rho": r"$\rho$",
    "mu": r"$\mu$",
    "order": "order",
    "p": "p",
    "weights": "weights",
    "participation": "participation",
}
KINDS: Mapping[tuple[str, str | None], str] = {
    ("dp", None): "differential privacy",
    ("zcdp", None): "zCDP",
    ("gaussian-dp", None): "Gaussian DP",
    ("renyi", None): "Renyi DP",
    ("pml", None): "pointwise maximal leakage",
    ("pml", "slack"): "pointwise maximal leakage (slack)",
    ("pml", "envelope"): "pointwise maximal leakage (envelope)",
}
"""By the kind of a guarantee and the meaning of its delta."""


@styled
def comparisons_figure(comparisons: Sequence[Comparison]) -> Figure:
    """The error of each strategy: bars, or lines over varying numbers.

    Lines are over the cells of families of workloads, else over the first number of AXES that
    varies, and show the error per query, err_p / m^(1/p). Other numbers that vary have a panel for
    each value, all with one scale. The dashed line is the lower bound for every mechanism. The
    guarantee is in the title, and the noise in the label of every strategy.

    Raises:
        InvalidInputError: there would be more than MAX_PANELS panels, or the table has no row.
    """
    return _figure(points_of(comparisons))


@styled
def sweep_figure(sweep: Sweep) -> Figure:
    """The same of the rows of a sweep.

    Raises:
        FileError: its file cannot be read any more.
        InvalidInputError: there would be more than MAX_PANELS panels, or the table has no row.
    """
    return _figure(points_of_records(sweep.to_records()))


def _figure(points: Sequence[PlottedRow]) -> Figure:
    from matplotlib.figure import Figure

    varying = [key for key in points[0].where if len({point.where[key] for point in points}) > 1]
    axis = next((key for key in AXES if key in varying and _is_scale(points, key)), None)
    panels: dict[tuple[Any, ...], list[PlottedRow]] = {}
    for point in points:
        key = tuple(point.where[key] for key in varying if key != axis)
        panels.setdefault(key, []).append(point)
    if len(panels) > MAX_PANELS:
        raise InvalidInputError(
            f"the picture would have {len(panels)} panels, at most {MAX_PANELS} can be drawn; "
            "take fewer workloads, p or parameters at a time, or write the table instead"
        )
    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns + 2.4, 4.2 * height + 0.4), layout="constrained")
    noises = noises_of(points)
    # one scale for all panels, so that they can be compared
    bars = axis is None
    grid = figure.subplots(height, columns, squeeze=False, sharex=bars, sharey=not bars).flat
    for group, axes in zip(panels.values(), grid, strict=False):
        if axis is None:
            _bars(axes, group)
        else:
            _lines(axes, axis, group, noises)
        others = [name for name in varying if name not in (axis, "workload")]
        values = [group[0].where[name] for name in others]
        parts = [f"{LABELS[n]} = {text_of(v)}" for n, v in zip(others, values, strict=True)]
        axes.set_title(", ".join([group[0].where["workload"], *parts]))
        axes.grid(alpha=0.3)
        axes.tick_params(labelbottom=True)
    for axes in [*grid]:  # panels that were not needed
        axes.set_axis_off()
    if axis is not None:
        labelled: dict[str, Any] = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                labelled.setdefault(label, handle)
            _shade(axes)
        figure.legend(labelled.values(), labelled.keys(), loc="outside right center")
    figure.suptitle(guarantee_text(points, varying), fontsize="medium")
    return figure


def _is_scale(points: Sequence[PlottedRow], key: str) -> bool:
    """Whether all points have a number there."""
    return all(isinstance(point.where[key], float | int) for point in points)


def _bars(axes: Axes, points: Sequence[PlottedRow]) -> None:
    points = sorted(points, key=lambda point: point.error)[::-1]
    names = [f"{point.strategy} ({point.noise})" for point in points]
    bars = axes.barh(names, [point.error for point in points])
    axes.bar_label(bars, [f" {point.error:.4g}" for point in points])
    bounds = [point.lower_bound for point in points if point.lower_bound]
    if bounds:
        label = f"lower bound {at_most(bounds[0], 4)}"
        axes.axvline(bounds[0], linestyle="--", color="0.2", label=label)
        axes.legend(loc="upper right")
    axes.margins(x=0.18)
    p = text_of(points[0].where["p"])
    axes.set_xlabel(f"$\\ell_{{{p}}}$ error")


def _lines(axes: Axes, axis: str, points: Sequence[PlottedRow], noises: Mapping[str, str]) -> None:
    values = sorted({point.where[axis] for point in points})
    # p is drawn at even steps, as infinity may be among its values
    place = {value: float(i) if axis == "p" else value for i, value in enumerate(values)}
    names = list(dict.fromkeys(point.strategy for point in points))
    for number, name in enumerate(names):
        marker, line_style = MARKERS[number % len(MARKERS)], LINES[number // len(COLOURS) % 4]
        line = sorted((q for q in points if q.strategy == name), key=lambda q: q.where[axis])
        heights = [point.per_query(point.error) for point in line]
        where = [place[q.where[axis]] for q in line]
        label = f"{name} ({noises[name]})"
        axes.plot(where, heights, line_style, marker=marker, label=label)
    bounds = {q.where[axis]: q.per_query(q.lower_bound) for q in points if q.lower_bound}
    if bounds:
        xs = sorted(bounds)
        heights = [bounds[x] for x in xs]
        where = [place[x] for x in xs]
        axes.plot(where, heights, "--", color=BOUND, label=LOWER)
    if axis != "p":
        axes.set_xscale("log")
    if len(values) <= 12:
        axes.set_xticks([place[value] for value in values], [text_of(value) for value in values])
        axes.set_xticks([], minor=True)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(_decimals())
    axes.yaxis.set_minor_formatter(_decimals(minor_thresholds=(2, 0.4)))
    axes.set_xlabel(LABELS[axis])
    powers = {text_of(point.where["p"]) for point in points}
    axes.set_ylabel(f"$\\ell_{{{powers.pop() if len(powers) == 1 else 'p'}}}$ error per query")


def _shade(axes: Axes) -> None:
    """Shade the errors that no mechanism reaches, down to the edge; called after all lines."""
    bottom = axes.get_ylim()[0]
    for line in axes.lines:
        if line.get_label() == LOWER:
            axes.fill_between(*line.get_data(), bottom, color=BOUND, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=bottom)


def _decimals(**options: Any) -> LogFormatter:
    """Labels of a logarithmic axis such as 0.6, not 6e-01."""
    from matplotlib.ticker import LogFormatter

    class Decimals(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    return Decimals(**options)


@dataclass(frozen=True, slots=True)
class PlottedRow:
    """The error of a strategy with its noise, and its place in the picture.

    Attributes:
        where: by the names in LABELS, and the workload.
        strategy: its name.
        noise: its kind.
        error: l_p^p error of all queries.
        lower_bound: on that of every mechanism; None if unknown.
        queries: their number.
        promise: name of the guarantee; empty without one.
        neighbours: the relation of the guarantee.
    """

    where: dict[str, Any]
    strategy: str
    noise: str
    error: float
    lower_bound: float | None
    queries: int
    promise: str
    neighbours: str

    def per_query(self, error: float) -> float:
        """An l_p^p error of all queries as that of one."""
        p = self.where["p"]
        size = 1.0 if math.isinf(p) else math.pow(self.queries, 1 / p)
        return error / size


def points_of(comparisons: Sequence[Comparison]) -> list[PlottedRow]:
    """Every row with its coordinates; the members of a family share one name."""
    records = []
    for comparison in comparisons:
        m, n = comparison.workload.shape
        promise = {} if comparison.guarantee is None else comparison.guarantee.to_json()
        shared = promise | {"workload": comparison.workload.name, "queries": m, "cells": n}
        records += [
            row.to_record() | shared | {"strategy": row.strategy} for row in comparison.rows
        ]
    return points_of_records(records)


def points_of_records(records: Sequence[Mapping[str, Any]]) -> list[PlottedRow]:
    """Every row of a comparison or a sweep that has an error.

    Raises:
        InvalidInputError: none has one.
    """
    done = [record for record in records if record["error"] is not None]
    if not done:
        raise InvalidInputError("there is nothing to draw: no row has an error")
    families = _families({record["workload"]: record["cells"] for record in done})
    return [_point(record, families) for record in done]


def _families(sizes: Mapping[str, int]) -> dict[str, str]:
    """The name of the family of every workload; empty if one of them is in none.

    A family has several members that differ in a number of their names, and in their cells.
    """
    patterns: dict[str, list[str]] = {}
    for name in sizes:
        patterns.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    for names in patterns.values():
        if len(names) == 1 or len({sizes[name] for name in names}) < len(names):
            return {}
    return {name: _family_name(names) for names in patterns.values() for name in names}


def _point(record: Mapping[str, Any], families: Mapping[str, str]) -> PlottedRow:
    name = record["workload"]
    where = {"workload": families.get(name, name)}
    where |= {"cells": record["cells"]} if families else {}
    where |= {key: record.get(key) for key in PARAMETERS}
    if record.get("alpha_file") or isinstance(where["alpha"], list):
        where["alpha"] = record.get("alpha_file") or "one for each cell"
    where |= {key: record.get(key) or "none" for key in ("weights", "participation")}
    kind = record.get("kind")
    return PlottedRow(
        where=where | {"p": record["p"]},
        strategy=record["strategy"],
        noise=record["noise"],
        error=record["error"],
        lower_bound=record["lower_bound"],
        queries=record["queries"],
        promise=KINDS[kind, record.get("failure") or None] if kind else "",
        neighbours=record.get("neighbours") or "",
    )


def _family_name(names: Sequence[str]) -> str:
    """The first name, with the numbers that others have differently written as n."""
    split = [re.split(r"(\d+)", name) for name in names]
    return "".join(parts[0] if len(set(parts)) == 1 else "n" for parts in zip(*split, strict=True))


def noises_of(points: Sequence[PlottedRow]) -> dict[str, str]:
    """The kinds of noise of every strategy, over all points; of several without their grids."""
    kinds: dict[str, dict[str, None]] = {}
    for point in points:
        kinds.setdefault(point.strategy, {})[point.noise] = None
    kinds = {
        name: dict.fromkeys(kind.split()[0] for kind in of) if len(of) > 1 else of
        for name, of in kinds.items()
    }
    return {name: " or ".join(of) for name, of in kinds.items()}


def guarantee_text(points: Sequence[PlottedRow], varying: Sequence[str]) -> str:
    """The kind of the guarantee, and those of its numbers that all panels and points share."""
    promises = sorted({point.promise for point in points} - {""})
    if not promises:
        return "no guarantee: noise of scale equal to the sensitivity"
    numbers = [
        f"{LABELS[key]} = {text_of(points[0].where[key])}"
        for key in PARAMETERS
        if key not in varying and points[0].where[key] is not None
    ]
    relations = sorted({point.neighbours for point in points if point.promise})
    return ", ".join([" and ".join(promises), *numbers, f"{' and '.join(relations)} neighbours"])


def text_of(value: float | str | None) -> str:
    """A value in a picture."""
    if isinstance(value, float | int):
        return "\u221e" if math.isinf(value) else f"{value:g}"
    return value or "none"
