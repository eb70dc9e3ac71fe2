"""The table of named workloads: a new one gets its function in `queries` and its row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pmldesign.workloads.base import Workload
from pmldesign.workloads.named import queries as named
from pmldesign.workloads.named.census import census_p12, census_sf1, census_sf1plus
from pmldesign.workloads.nested.places import counts_of_places


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """One row of the table of names.

    Attributes:
        name: what stands before the colon.
        arguments: the sizes that follow it, in order; with "..." any number of them.
        description: one line.
        example: a text that parse_workload accepts.
        build: takes the sizes, and the options by keyword.
        options: what may follow as option=value.
        words: what such a value may be that is no number.
        file: whether a file and the weights of its levels follow, in place of sizes.
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
        """How to write it: "random-range:M,N[,seed=...]"."""
        return self.sizes + "".join(f"[,{option}=...]" for option in self.options)

    @property
    def sizes(self) -> str:
        """The same without options: "random-range:M,N"."""
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
"""A new name gets its row here."""


def named_workloads() -> tuple[NamedWorkload, ...]:
    """All names that parse_workload knows, for help texts."""
    return tuple(NAMES)
