"""The table of named workloads: a new one gets its function in `queries` and its row here.

This module also has tables of the census of the United States. P12, "sex by age", has been
published for every area since 2010. Cells: 2 sexes x 116 single years of age,
cell = 116 sex + age, male first, ages 0 ... 115. Queries, in the order of the table: the total;
male and its 23 age groups; female and hers. Each of the 49 is one interval of cells.

`census_sf1` has the 4,151 counts of 33 products over sex, Hispanic or not, the 64 sets of six races
and 115 ages that stand for the tables P1, P3 to P5, P8 to P12, P12A to I, PCT12 and PCT12A to O in
McKenna, Miklau, Hay and Machanavajjhala, Optimizing error of high-dimensional statistical queries
under differential privacy (HDMM), PVLDB 2018. Counts that several tables have are asked as often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pmldesign.workloads import queries as named
from pmldesign.workloads.base import Workload
from pmldesign.workloads.dense import DenseWorkload
from pmldesign.workloads.nested.places import counts_of_places
from pmldesign.workloads.queries import all_marginals
from pmldesign.workloads.ranges import CountsWorkload, RangeWorkload, total_of
from pmldesign.workloads.terms.constructors import KroneckerWorkload, UnionWorkload
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign_solvers.operators.operator import Array, Indices

AGES = 116
"""Single years of age, 0 ... 115."""

ADULT = 18
"""First age of adults."""
GROUP_STARTS = (
    *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)
"""The first age of each of the 23 groups; a group ends where the next one starts."""


def census_p12() -> RangeWorkload:
    """The 49 counts of the table "sex by age" over 232 cells."""
    stops = (*GROUP_STARTS[1:], AGES)
    rows = [("total", 0, 2 * AGES)]
    for sex, offset in (("male", 0), ("female", AGES)):
        rows.append((sex, offset, offset + AGES))
        rows += [
            (f"{sex}, {_age_text(start, stop)}", offset + start, offset + stop)
            for start, stop in zip(GROUP_STARTS, stops, strict=True)
        ]
    labels, starts, ends = zip(*rows, strict=True)
    return RangeWorkload(starts, ends, 2 * AGES, name="census-p12", label=labels.__getitem__)


PERSONS = 2, 2, 64, 115
"""Sexes, Hispanic or not, sets of six races as binary numbers, ages 0 ... 114."""
SF1 = (
    *("P1: , , ,", "P3: , , major,", "P3: , , ,", "P4: , each, ,", "P4: , , ,"),
    *("P5: , each, major,", "P5: , each+, ,", "P8: , , sets,", "P8: , , ,", "P9: , each, ,"),
    *("P9: , not, sets,", "P9: , , ,", "P10: , , sets, adult", "P10: , , , adult"),
    *("P11: , each, , adult", "P11: , not, sets, adult", "P11: , , , adult"),
    *("P12: each, , , groups", "P12: each+, , ,"),
    *("P12A-G: each, , major, groups", "P12A-G: each+, , major,"),
    *("P12H: each, is, , groups", "P12H: each+, is, ,"),
    *("P12I: each, not, white, groups", "P12I: each+, not, white,"),
    *("PCT12: each, , , years", "PCT12: each+, , ,"),
    *("PCT12A-G: each, , major, years", "PCT12A-G: each+, , major,"),
    *("PCT12H: each, is, , years", "PCT12H: each+, is, ,"),
    *("PCT12I-O: each, not, major, years", "PCT12I-O: each+, not, major,"),
)
"""The table and its queries about each attribute; an empty field stands for the total."""


def census_sf1() -> TermsWorkload:
    """The 4,151 counts of persons in Summary File 1 over 29,440 cells."""
    kinds = {name: DenseWorkload(matrix, name=name) for name, matrix in _kinds().items()}
    parts = []
    for text in SF1:
        table, asked = text.split(":")
        pairs = zip(PERSONS, map(str.strip, asked.split(",")), strict=True)
        factors = [
            (CountsWorkload(n) if kind == "each" else kinds[kind]) if kind else total_of(n)
            for n, kind in pairs
        ]
        parts.append(KroneckerWorkload(factors, name=table))
    return UnionWorkload(parts, name="census-sf1")


STATES = 51
"""The states and the District of Columbia."""


def census_sf1plus() -> TermsWorkload:
    """The counts of `census_sf1` by state and in total: 215,852 counts over 1,501,440 cells."""
    states = all_marginals(STATES, upto=1)
    return KroneckerWorkload([census_sf1(), states], name="census-sf1plus")


def _kinds() -> dict[str, Array]:
    """The queries about single attributes, other than each value and the total."""
    sets, ages = np.arange(64), np.arange(PERSONS[-1])
    single = (sets == 2 ** np.arange(6)[:, None]).astype(float)
    races = np.array([number.bit_count() for number in range(64)])
    several = (races == np.arange(1, 7)[:, None]).astype(float)
    stops = (*GROUP_STARTS[1:], PERSONS[-1])
    old = (100, 105), (105, 110), (110, PERSONS[-1])
    return {
        "each+": np.vstack([np.eye(2), np.ones(2)]),
        "is": np.array([[1.0, 0.0]]),
        "not": np.array([[0.0, 1.0]]),
        "white": single[:1],
        "major": np.vstack([single, 1 - single.sum(axis=0)]),
        "sets": np.vstack([np.eye(64)[1:], several, several[1:].sum(axis=0)]),
        "adult": (ages >= ADULT)[None].astype(float),
        "groups": _intervals(zip(GROUP_STARTS, stops, strict=True), ages),
        "years": np.vstack([np.eye(PERSONS[-1])[:100], _intervals(old, ages)]),
    }


def _intervals(bounds: Iterable[tuple[int, int]], ages: Indices) -> Array:
    return np.array([(start <= ages) & (ages < stop) for start, stop in bounds], dtype=float)


def _age_text(start: int, stop: int) -> str:
    if start == 0:
        return f"under {stop} years"
    if stop == AGES:
        return f"{start} years and over"
    if stop == start + 1:
        return f"{start} years"
    join = "and" if stop == start + 2 else "to"
    return f"{start} {join} {stop - 1} years"


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """One row of the table of names.

    Attributes:
        name: the text before the colon.
        arguments: the sizes that follow it, in order; with "..." any number of them.
        description: one line.
        example: a text that parse_workload accepts.
        build: takes the sizes, and the options by keyword.
        options: names of the options, which may follow as option=value.
        words: allowed values of options other than numbers.
        file: whether a file and the weights of its levels follow instead of sizes.
    """

    name: str
    arguments: tuple[str, ...]
    description: str
    example: str
    build: Callable[..., Workload]
    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    file: bool = False

    @property
    def usage(self) -> str:
        """Its syntax: "random-range:M,N[,seed=...]"."""
        return self.sizes + "".join(f"[,{option}=...]" for option in self.options)

    @property
    def sizes(self) -> str:
        """Its syntax without options: "random-range:M,N"."""
        return self.name + (":" + ",".join(self.arguments) if self.arguments else "")


NAMES = [
    NamedWorkload("histogram", ("N",), "the count of each cell", "histogram:10", named.histogram),
    NamedWorkload("total", ("N",), "the sum of all cells", "total:10", named.total),
    NamedWorkload("prefix", ("N",), "running sums, one for each cell", "prefix:64", named.prefix),
    NamedWorkload(
        "decay",
        ("N", "RATE"),
        "running sums of which each step keeps the part RATE",
        "decay:64,0.9",
        named.decay,
    ),
    NamedWorkload(
        "sgd",
        ("N", "MOMENTUM"),
        "what gradients add to a model, step by step",
        "sgd:64,0.9,rates=cosine",
        named.sgd,
        ("rates",),
        words=named.RATES,
    ),
    NamedWorkload(
        "all-range", ("N",), "the sum of every interval", "all-range:32", named.all_range
    ),
    NamedWorkload(
        "random-range",
        ("M", "N"),
        "M random intervals of N cells",
        "random-range:8,8,seed=1",
        named.random_range,
        ("seed",),
    ),
    NamedWorkload("haar", ("N",), "Haar differences, N a power of two", "haar:8", named.haar),
    NamedWorkload("parity", ("D", "W"), "parities of W out of D bits", "parity:6,2", named.parity),
    NamedWorkload(
        "window", ("N", "W"), "at each time the sum of the last W", "window:64,7", named.window
    ),
    NamedWorkload(
        "at-most",
        ("N", "..."),
        "of attributes the cells with i + j <= c, for each c; of all sets of K (ways=K)",
        "at-most:8,8",
        named.at_most,
        ("ways",),
    ),
    NamedWorkload(
        "within",
        ("N", "..."),
        "of two attributes the cells with |i - j| <= c, for each c; of all pairs (ways=2)",
        "within:8,8",
        named.within,
        ("ways",),
    ),
    NamedWorkload(
        "marginals",
        ("N", "..."),
        "tables by K attributes (ways=K), by 0 to K (upto=K)",
        "marginals:2,3^4,ways=2",
        named.all_marginals,
        ("ways", "upto"),
    ),
    NamedWorkload(
        "sum",
        ("VALUE", "..."),
        "the sum of all cells, each times its value",
        "sum:0,1",
        named.sum_of_values,
    ),
    NamedWorkload(
        "regions",
        ("FILE", "LEVEL=WEIGHT", "..."),
        "counts of places that nest, from a .csv of them",
        "regions:places.csv",
        counts_of_places,
        file=True,
    ),
    NamedWorkload("census-p12", (), "US census counts by sex and age", "census-p12", census_p12),
    NamedWorkload(
        "census-sf1", (), "US census counts of persons, the tables of SF1", "census-sf1", census_sf1
    ),
    NamedWorkload(
        "census-sf1plus",
        (),
        "the same for 51 states, and for all of them",
        "census-sf1plus",
        census_sf1plus,
    ),
]
"""The table of names; add new names here."""


def named_workloads() -> tuple[NamedWorkload, ...]:
    """All names that parse_workload knows, for help texts."""
    return tuple(NAMES)
