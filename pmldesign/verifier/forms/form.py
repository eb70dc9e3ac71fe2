"""What verification states about a form of strategy file (a row of `registry.FORMS`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pmldesign.verifier import balls, rounding
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import WEAKER, Arrays, Checks, Header

MOST_CELLS, MOST_ENTRIES = 2048, 2**23
"""Of R, in all: a decomposition of 2048 x 2048 takes ten seconds."""


TOO_WIDE = "entries are too large or too small for double precision"
"""Why numbers are not checked."""


class Domain(NamedTuple):
    """What an array may be: its least entry, whether that is left out, whole numbers, axes."""

    least: float = -math.inf
    open: bool = False
    whole: bool = False
    axes: tuple[int, ...] = (1,)

    def holds(self, array: Any) -> bool:
        """Whether an array is of this kind, of 64 bits; entries of float arrays are finite."""
        if array.dtype != (np.int64 if self.whole else np.float64) or array.ndim not in self.axes:
            return False
        return bool((array > self.least if self.open else array >= self.least).all())


MATRIX, VECTOR = Domain(axes=(2,)), Domain()
POSITIVE, WEIGHTS = Domain(0.0, open=True), Domain(0.0, axes=(1, 2))
COUNTS, SETS = Domain(0, whole=True), Domain(-1, whole=True, axes=(2,))
SIZES = Domain(1, whole=True)


class Claims(NamedTuple):
    """The claims of a file, with its content.

    Attributes:
        header: of the file.
        arrays: of the file.
        queries: those that the strategy is for.
        cells: the number n of columns.
    """

    header: Header
    arrays: Arrays
    queries: Queries
    cells: int

    @property
    def large(self) -> bool:
        """Whether a matrix of so many cells is too large to be dense."""
        return self.cells > MOST_CELLS

    @property
    def pml(self) -> bool:
        """Whether the guarantee is one of leakage."""
        return bool(self.header.get("guarantee_numbers", {}).get("kind") == "pml")

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian, or absent."""
        return bool(self.header.get("noise", "gaussian") == "gaussian")

    @property
    def plain(self) -> bool:
        """Whether neighbours are add-remove, for differential privacy."""
        return not self.pml and bool(self.header["neighbours"] == "add-remove")

    @property
    def exact(self) -> bool:
        """Whether the error needs variances alone."""
        return self.gaussian or float(self.header["p"]) in (2.0, math.inf)

    @property
    def told(self) -> bool:
        """Whether variances and sensitivities suffice, or the matrix is not available."""
        return self.large or (self.exact and not self.pml)

    @property
    def tables(self) -> bool:
        """Whether the queries are made of tables."""
        return bool(self.queries.tables)

    @property
    def beside(self) -> bool:
        """Whether it is a strategy given a public table."""
        return "counted" in self.arrays


class Method(NamedTuple):
    """A check of all claims by structure.

    Attributes:
        fits: whether it is for these claims.
        check: makes it.
        arithmetic: in which, of these arrays.
    """

    fits: Callable[[Claims], bool]
    check: Callable[[Header, Arrays, Queries, Checks], None]
    arithmetic: Callable[[Arrays], str] = lambda _: rounding.NAME


@dataclass(frozen=True, slots=True)
class Form:
    """A form of strategy file.

    Attributes:
        about: its description, in words.
        arrays: of the form, with their domains; # stands for 0, 1 ...
        cells: the number n of columns.
        rows: R, some rows after the other; None if R itself is in the file.
        methods: checks by structure: the first that fits is made, or else that of the matrix.
        several: the same as methods, if a person takes part several times.
        lower: the bound proved by dual weights that are not of single queries and cells; its value
            is None if they are.
        weaker: by what part a claimed lower bound may be below it.
        beside: groups of optional arrays; a file has at most one group.
        unsaid: errors that need no number.
        grouped: whether structure determines all claims given known sums of groups of cells.
    """

    about: str
    arrays: Mapping[str, Domain]
    cells: Callable[[Arrays], int]
    rows: Callable[[Arrays], Iterable[Any]] | None = None
    methods: tuple[Method, ...] = ()
    several: tuple[Method, ...] = ()
    lower: Callable[[Claims], Any] = lambda _: None
    weaker: float = WEAKER
    beside: tuple[Mapping[str, Domain], ...] = ()
    unsaid: tuple[str, ...] = ()
    grouped: bool = False

    def domains(self, arrays: Arrays) -> dict[str, Domain]:
        """The arrays that a file of this form must hold, given those that it holds."""
        names = kinds(arrays)
        more = next((group for group in self.beside if names & (group.keys() - self.arrays)), {})
        return {**self.arrays, **more}

    def check(self, claims: Claims, checks: Checks) -> str | None:
        """All claims by structure: the arithmetic, or None if they are left to the matrix.

        Cube noise, whose norm no structure determines, and integer-valued noise are left to it.
        """
        if claims.header.get("noise") == "cube" or "own_grid" in claims.header:
            return None
        methods = self.several if "participation" in claims.header else self.methods
        chosen = next((method for method in methods if method.fits(claims)), None)
        if chosen is None:
            return None
        if not rounding.in_range(claims.arrays):
            checks.unchecked("claims", TOO_WIDE)
            return "none"
        try:
            chosen.check(claims.header, claims.arrays, claims.queries, checks)
        except rounding.HiddenError as error:
            checks.unchecked("claims", str(error))
            return "none"
        return chosen.arithmetic(claims.arrays)

    def matrix(self, arrays: Arrays) -> Any:
        """R, shape (r, n); None if it is too large."""
        if self.rows is None:
            return arrays["strategy"]
        if self.cells(arrays) > MOST_CELLS:
            return None
        blocks, entries = [], 0
        for block in self.rows(arrays):
            blocks.append(block)
            entries += block.size
            if entries > MOST_ENTRIES:
                return None
        return np.vstack(blocks)


def kinds(arrays: Arrays) -> set[str]:
    """The names of arrays, # for their numbers."""
    return {kind(name) for name in arrays}


def kind(name: str) -> str:
    """The name of an array, # for its number."""
    return re.sub("_[0-9]+$", "_#", name)


def members_of(rows: Any) -> list[tuple[int, ...]]:
    """Sets, in order, that are filled up with -1.

    Raises:
        ValueError: other rows.
    """
    sets = [tuple(row[row >= 0].tolist()) for row in rows]
    for row, members in zip(rows.tolist(), sets, strict=True):
        if row != [*sorted({*members}), *[-1] * row.count(-1)]:
            raise ValueError(f"{row} is no set in order")
    return sets


def in_balls(_: Arrays) -> str:
    """The arithmetic of checks that bound no rounding: they have none."""
    return balls.NAME


def along(name: str) -> Callable[[Arrays], int]:
    """The number of columns of an array."""
    return lambda arrays: int(arrays[name].shape[-1])


def of_sizes(arrays: Arrays) -> int:
    """The number of columns of products of all sizes."""
    return int(math.prod(arrays["sizes"].tolist()))


def of_factors(arrays: Arrays) -> int:
    """Those of a product."""
    return int(math.prod(R.shape[-1] for name, R in arrays.items() if name.startswith("factor_")))


def of_blocks(arrays: Arrays) -> int:
    """Those of blocks."""
    others = (V.shape[-1] for name, V in arrays.items() if name.startswith("basis_"))
    return int(arrays["block_0"].shape[-1] * math.prod(others))


def of_epochs(arrays: Arrays) -> int:
    """Those of fixed epochs."""
    n, times, apart = arrays["epochs"].tolist()
    if n > times * apart:
        raise ValueError("k steps b apart are all n")
    return int(n)
