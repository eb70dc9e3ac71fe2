r"""What a product of queries asks of one attribute.

    of every attribute     histogram, total, prefix, all-range, window,W; of numbers those of bins
    of numbers             sum                 sum_k t_k x_k
                           sums                the same in each bin
                           sum2                sum_k t_k^2 x_k, above the sum of squares by up to
                                               (t_(k+1) - t_k)^2 / 4 for each record
                           linear,F0,F1,...    of the function with these values at the knots
                           mean[,N]            sum / count, a ratio
    of cuts                quantile(q,...)     where F(t) = q N, by straight lines between the cuts
    of keys and cuts       share[,N]           count / count of all values, a ratio
    of two neighbours      at-most             records whose places among the values (from 0) add up
                                               to c at most, for every c
                           within              whose places differ by c at most

A ratio that lies in [a, b] is not linear. The linear queries asked for it are u and l, which
determine it,

    u = (numerator - a count) / N,   l = (b count - numerator) / N,   a + (b - a) u / (u + l).

If the truth is a + (b - a) t, the error of the ratio is N / count times that of (1 - t) u - t l,
whose standard deviation is at most the larger one of u and l: these bound that of a ratio of N
people or more, for which targets may be given. N is 1 if it is omitted.

A quantile is the t at which F(t) - q N is zero, F(t) the records below t and N all of them. The
linear queries asked for it are this number at each of the cuts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pmldesign.arguments import as_number, as_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.releases.people.attribute import Attribute
from pmldesign.releases.people.numbers import Number
from pmldesign.workloads import DenseWorkload, RangeWorkload, Workload, parse_workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.parsing import weight_of as weight_of_part
from pmldesign_solvers.operators.operator import Array

RANGES = ("histogram", "total", "prefix", "all-range", "window")
OF_NUMBERS = ("sum", "sum2", "mean", "linear")
MEANS = ("mean", "avg", "average")
QUANTILES = ("median", "quantile", "quantiles", "percentile", "percentiles")
"""As other programs call them."""
PLACES = 17
"""Values of a ratio with an interval of their own; lines between are up to 0.2% above others."""
PIECES = 4
"""Parts of a bin with half-widths of their own; with one part, intervals of 95% cover up to 97%."""
OF_TWO = {"at-most": "places add up to at most", "within": "places differ by at most"}


@dataclass(frozen=True, eq=False)
class Root:
    """Numbers t at which a linear statistic T(t), which increases, is zero: ratios and quantiles.

    T is given at some t and straight between them; its values there are linear combinations of the
    queries.

    Attributes:
        values: the t, shape (k,), increasing; the ends may be infinite.
        weights: of the queries in the T(t), shape (k, asked).
        rows: the queries, shape (asked, items, n), for each ratio or quantile.
    """

    values: Array
    weights: Array
    rows: Array

    def at(self, place: int) -> Workload:
        """T at one of the t, a row for each item."""
        rows = np.tensordot(self.weights[place], self.rows, axes=1)
        return DenseWorkload(rows, name=f"at {self.values[place]:g}")


@dataclass(frozen=True, eq=False)
class Factor:
    """The queries on one attribute.

    Attributes:
        text: equal for equal queries on attributes of one size; "" for queries in the previous
            factor.
        build: makes them.
        names: makes the name of each query, or of each ratio or quantile.
        root: the parts of ratios or quantiles, if they are such.
        asked: of numbers, ratios, quantiles and two attributes, how it was written.
    """

    text: str
    build: Callable[[], Workload]
    names: Callable[[], list[str]]
    root: Root | None = None
    asked: str = ""

    @property
    def is_total(self) -> bool:
        """Whether the attribute is summed over."""
        return self.text.startswith("total")


def of_two(attributes: Sequence[Attribute], asked: str) -> tuple[Factor, Factor]:
    """What "age&income:within" asks of two attributes: the factor of both, and nothing of its own.

    Raises:
        InvalidInputError: the attribute does not have these queries.
    """
    kind = asked.partition(":")[2].strip()
    names = [attribute.name for attribute in attributes]
    if kind not in OF_TWO:
        raise _unknown(asked, kind, tuple(OF_TWO), f"write for example {'&'.join(names)}:within")
    for attribute in attributes:
        if isinstance(attribute, Number):
            raise InvalidInputError(
                f"{asked[:60]!r}: {attribute.name!r} is a number, of which records are spread over"
                " cells; join attributes with keys or cuts"
            )
        attribute.require_order(f"the places in {asked!r}")
    text = f"{kind}:{','.join(str(len(attribute.labels)) for attribute in attributes)}"
    count = parse_workload(text).shape[0]
    both = Factor(
        text,
        partial(parse_workload, text),
        lambda: [f"{OF_TWO[kind]} {c}" for c in range(count)],
        asked=asked,
    )
    return both, Factor("", partial(parse_workload, text), lambda: [f"with {names[0]}"])


def weight_of(part: str, names: Sequence[str]) -> tuple[float, str]:
    """The weight at the head of a product, unless it begins with one of some names, and the rest.

    Raises:
        InvalidInputError: it begins with a digit, and is not a number.
    """
    first = part.partition("*")[0].partition(":")[0].strip()
    return (1.0, part) if first in names else weight_of_part(part, part)


def total_factor(attribute: Attribute) -> Factor:
    """An attribute that is summed over."""
    return queries_on(attribute, f"total:{len(attribute.labels)}")


def factor_of(attribute: Attribute, asked: str) -> Factor:
    """What "age:window,7" asks of the attribute age.

    Args:
        attribute: the one that is named.
        asked: as it was written.

    Raises:
        InvalidInputError: it does not have these queries.
    """
    _, colon, rest = (piece.strip() for piece in asked.partition(":"))
    kind, *arguments = [piece.strip() for piece in rest.split(",")] if colon else ["histogram"]
    if found := re.fullmatch(r"quantile\s*\((.*)\)", rest):
        return replace(_quantiles(attribute, found[1], asked), asked=asked)
    if isinstance(attribute, Number):
        return replace(_of_numbers(attribute, kind, arguments, asked), asked=asked)
    if kind == "share":
        return replace(_share(attribute, _people(arguments, asked)), asked=asked)
    if kind not in RANGES:
        other = f"write for example {attribute.name}:prefix"
        raise _unknown(asked, kind, (*RANGES, "share"), meant(attribute, kind) or other)
    if kind not in ("histogram", "total"):
        attribute.require_order(f"the sums of {asked!r}")
    return queries_on(attribute, ",".join([f"{kind}:{len(attribute.labels)}", *arguments]))


def queries_on(attribute: Attribute, text: str) -> Factor:
    """Counts or ranges of the cells of an attribute, as the text of a workload."""
    return Factor(text, partial(parse_workload, text), partial(_range_labels, attribute, text))


def _range_labels(attribute: Attribute, text: str) -> list[str]:
    if text.startswith("total"):
        return ["*"]
    ends = parse_workload(text).ends
    assert ends is not None
    pairs = zip(*(places.tolist() for places in ends), strict=True)
    return [attribute.range_label(start, stop) for start, stop in pairs]


def _of_numbers(attribute: Number, kind: str, arguments: Sequence[str], asked: str) -> Factor:
    values = np.array([float(value) for value in attribute.values])
    if kind == "total":
        return total_factor(attribute)
    if kind in ("sum", "sum2") and not arguments:
        powers = values ** (2 if kind == "sum2" else 1)
        return _of_rows(_text("sum", powers), powers[None], [kind])
    if kind == "mean":
        low, high = float(values[0]), float(values[-1])
        people = _people(arguments, asked)
        ends = np.stack([values - low, high - values]) / people
        return _of_ends(_text(f"mean,{people:g}", values), ends[:, None], (low, high), ["mean"])
    if kind == "linear":
        return _linear(attribute, arguments, asked)
    if kind == "sums" and attribute.binned and not arguments:
        bins = np.repeat(np.eye(len(attribute.bins)), 2, axis=1) * values
        return _of_rows(
            _text("sums", values), bins, [f"sum of {label}" for label in attribute.bins]
        )
    known = (*OF_NUMBERS, "sums", *RANGES) if attribute.binned else OF_NUMBERS
    if kind not in known or not attribute.binned:
        raise _unknown(asked, kind, known, meant(attribute, kind))
    return _of_bins(attribute, ",".join([f"{kind}:{len(attribute.bins)}", *arguments]))


def _of_bins(attribute: Number, text: str) -> Factor:
    """Counts of bins with two cells each."""
    ends = parse_workload(text).ends
    assert ends is not None
    starts, stops = 2 * ends[0], 2 * ends[1]
    pairs = [*zip(starts.tolist(), stops.tolist(), strict=True)]
    cells = len(attribute.labels)
    return Factor(
        f"bins {text}",
        lambda: RangeWorkload(starts, stops, cells, name=f"bins {text}"),
        lambda: [attribute.range_label(start, stop) for start, stop in pairs],
    )


def _linear(attribute: Number, arguments: Sequence[str], asked: str) -> Factor:
    values = np.array(as_numbers(arguments) or [])
    if not np.isfinite(values).all() or len(values) != len(attribute.points):
        raise InvalidInputError(
            f"{asked[:60]!r}: linear takes the value of a function at each of the "
            f"{len(attribute.points)} points {', '.join(attribute.points_text)} of "
            f"{attribute.name!r}, numbers with commas between"
        )
    cells = np.repeat(values, 2)[1:-1] if attribute.binned else values
    name = ",".join(["linear", *arguments])
    return _of_rows(_text("sum", cells), cells[None], [name])


def _share(attribute: Attribute, people: float) -> Factor:
    size = len(attribute.labels)
    check_entries(f"the shares of {attribute.name!r}", (2 * size, size))
    counts = np.eye(size) / people
    names = [f"share of {label}" for label in attribute.labels]
    ends = np.stack([counts, 1 / people - counts])
    return _of_ends(f"share,{people:g}:{size}", ends, (0.0, 1.0), names)


def _quantiles(attribute: Attribute, text: str, asked: str) -> Factor:
    """The quantiles of the values of an attribute with cuts."""
    shares = np.array(as_numbers(text.split(",")) or [])
    if not shares.size or not ((shares > 0) & (shares < 1)).all():
        raise InvalidInputError(
            f"{asked[:60]!r}: quantiles are in (0, 1), such as {attribute.name}:quantile(0.25,0.5)"
        )
    numbers = isinstance(attribute, Number)
    cuts: Sequence[Any] = attribute.cuts or ()
    if isinstance(attribute, Number):
        cuts = attribute.points if attribute.binned else ()
    if not cuts or attribute.dated:
        raise InvalidInputError(f"{asked[:60]!r}: quantiles are of numbers with cuts; give it cuts")
    if not numbers and attribute.bin_count < len(attribute.labels):
        raise InvalidInputError(
            f"{asked[:60]!r}: values of the key {attribute.labels[-1]!r} have no place among the"
            ' bins; use "outside": "drop", or cuts that end with null'
        )
    open_end = {0: -np.inf, len(cuts) - 1: np.inf}
    values = np.array([open_end[k] if cut is None else float(cut) for k, cut in enumerate(cuts)])
    below = np.repeat(np.tri(len(values), len(values) - 1, -1), 2 if numbers else 1, axis=1)
    rows = below[:, None] - shares[:, None]
    listed = ",".join(f"{share:g}" for share in shares)
    names = [f"quantile {share:g}" for share in shares]
    asked_at = [f"below {value:g}" for value in values]
    return _of_root(_text(f"quantile({listed})", values), _between(values, rows), names, asked_at)


def _between(values: Array, rows: Array) -> Root:
    """T at these values, and at some between two of them that are finite."""
    inner = [
        np.linspace(0.0, 1.0, PIECES, endpoint=False) if np.isfinite(stop - start) else np.zeros(1)
        for start, stop in itertools.pairwise(values)
    ]
    ends = np.arange(len(values))
    places = np.concatenate([*(k + part for k, part in enumerate(inner)), [ends[-1]]])
    weights = np.maximum(0.0, 1 - np.abs(places[:, None] - ends))
    between = np.array([_mixed(values, place) for place in places.tolist()])
    return Root(between, weights, rows)


def _mixed(values: Array, place: float) -> float:
    k = int(place)
    part = place - k
    return float(values[k] if part == 0 else (1 - part) * values[k] + part * values[k + 1])


def _text(kind: str, values: Array) -> str:
    return f"{kind}:{','.join(f'{value:.17g}' for value in values)}"


def _of_ends(text: str, rows: Array, limits: tuple[float, float], names: list[str]) -> Factor:
    """Ratios in [a, b] by u and l, which make up rows, shape (2, ratios, n)."""
    t = np.linspace(0.0, 1.0, PLACES)
    weights = np.stack([t - 1, t], axis=1)
    root = Root(limits[0] + (limits[1] - limits[0]) * t, weights, rows)
    return _of_root(text, root, names, ["upper end", "lower end"])


def _of_root(text: str, root: Root, names: list[str], asked: list[str]) -> Factor:
    rows = root.rows.reshape(-1, root.rows.shape[-1])
    labels = [f"{name}, {each}" for each in asked for name in names]
    return Factor(text, lambda: _dense(text, rows, labels), lambda: names, root)


def _of_rows(text: str, rows: Array, names: list[str]) -> Factor:
    return Factor(text, lambda: _dense(text, rows, names), lambda: names)


def _dense(text: str, rows: Array, names: Sequence[str]) -> Workload:
    return DenseWorkload(rows, name=text, label=names.__getitem__)


def _people(arguments: Sequence[str], asked: str) -> float:
    """N of a ratio."""
    number = as_number(arguments[0]) if arguments else 1.0
    if len(arguments) > 1 or number is None or not 0 < number <= 2**53:
        raise InvalidInputError(
            f"{asked[:60]!r}: a mean or share may say of how many people its errors are stated, "
            "such as mean,1000"
        )
    return number


def meant(attribute: Attribute, function: str) -> str:
    """What to write for a function of an attribute as other programs call it; "" for keys."""
    name, called = attribute.name, function.casefold()
    if called in QUANTILES:
        return f"write {name}:quantile(0.5), for an attribute with cuts"
    kind = "mean" if called in MEANS else "sum"
    if isinstance(attribute, Number):
        return f"write for example {name}:{kind}"
    wanted = kind == "mean" or called == kind
    counts = f"write {name} for the counts of its values"
    return f"{counts}; for sums and means give it low and high in the schema" if wanted else ""


def _unknown(asked: str, kind: str, known: Sequence[str], remedy: str) -> InvalidInputError:
    return InvalidInputError(f"{asked[:60]!r}: {kind!r} is none of {', '.join(known)}; {remedy}")
