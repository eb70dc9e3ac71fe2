r"""Claims for all rows of one person: those for a row, over how much farther people are apart.

    k,any            k rows in any cells: k times as far
    k,one-per=cell   k different cells
    k,one-per=BxYxC  k of the Y values in the middle, one cell of each; of more sizes every second
    ...,without=3+7-9    one is meant, and impossible cells are left out

v of one person is 0 or 1 in these cells, and v^T X v, X = R^T R, is at most the sum over the k
largest classes, each with its own largest X_ii and the k - 1 largest others of its row; the number
for two classes is the largest max(X_ij, 0) between them. Products have rows whose entries are
products of those of their factors. Under replace v - v' has up to 2 k cells and sums to 0: X_ij - t
for any t, in size; also at most twice v, and k times two cells. In l1 the lengths of cells add up.
The lower bound for one row is also one for all rows, and k times it for any cells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.verifier.forms.form import Claims, Form
from pmldesign.verifier.forms.structured import NORMS
from pmldesign.verifier.forms.written import centred
from pmldesign.verifier.report import AGREEMENT, Arrays, Header

TEXT = re.compile(
    r"([1-9]\d{0,6}),(any|one-per=(?:cell|([1-9]\d*(?:x[1-9]\d*x[1-9]\d*)+)))"
    r"(?:,without=(\d+(?:-\d+)?(?:\+\d+(?:-\d+)?)*))?",
    re.ASCII,
)
MOST_MISSING = 2**24
"""Most cells of a table with impossible cells."""
OF_NOISE = ("scale", "sensitivity", "error", "rmse", "max_std")
"""Claims that are proportional to the noise."""


@dataclass(frozen=True, slots=True)
class Persons:
    """Up to k rows of one person.

    Attributes:
        times: k.
        kind: "any", "one-per=cell" or "one-per=BxYxC".
        sizes: B, Y and C, or more, or nothing.
        missing: cells of these that cannot be.
    """

    times: int
    kind: str
    sizes: tuple[int, ...]
    missing: tuple[int, ...] = ()

    @classmethod
    def of(cls, text: Any) -> Persons | None:
        """As files have it; None for participation in steps, or none."""
        form = TEXT.fullmatch(text) if isinstance(text, str) else None
        if form is None:
            return None
        sizes = tuple(int(size) for size in (form[3] or "").split("x") if size)
        missing: list[int] = []
        for run in (form[4] or "").split("+") if form[4] else ():
            first, _, last = run.partition("-")
            most = min(math.prod(sizes) if sizes else 0, MOST_MISSING)
            if not (missing or [-1])[-1] < int(first) <= int(last or first) < most:
                return None
            missing += range(int(first), int(last or first) + 1)
        return cls(int(form[1]), form[2], sizes, tuple(missing))

    @property
    def classes(self) -> Any:
        """The number of the values that each cell has."""
        number = np.zeros(1, dtype=int)
        for place, size in enumerate(self.sizes):
            told = place % 2
            number = np.add.outer(number * size**told, told * np.arange(size)).ravel()
        return np.delete(number, self.missing)

    @property
    def sentence(self) -> str:
        """The part of a guarantee about them, which follows that about a record."""
        where = ""
        if self.sizes:
            where = f" with one for each of {math.prod(self.sizes[1::2])} values"
        elif self.kind != "any":
            where = " in different cells"
        return (
            f" All rows of one person, up to {self.times} of them{where}, count as one record here."
        )

    def count(self, cells: int) -> int:
        """How many rows there can be."""
        if self.sizes and math.prod(self.sizes) - len(self.missing) != cells:
            raise ValueError(f"{self.kind} is not about {cells} cells")
        most = math.prod(self.sizes[1::2]) if self.sizes else cells
        most = len(set(self.classes.tolist())) if self.missing else most
        return self.times if self.kind == "any" else min(self.times, most)

    def distance(self, R: Any, norm: str, *, replaced: bool, groups: Any = None) -> float:
        """At least that of measurements of neighbours, whose rows are replaced within groups."""
        n = R.shape[1]
        k, single = self.count(n), one_row(R, norm, replaced=replaced, groups=groups)
        if k == 1 or self.kind == "any" or norm == "linf":
            return k * single
        best = k * single
        if replaced and groups is None:
            best = min(best, 2 * self.distance(R, norm, replaced=False))
        if norm == "l1":
            return best if replaced else min(best, self._together(np.diag(np.abs(R).sum(axis=0))))
        X = R.T @ R
        if not replaced:
            return min(best, math.sqrt(self._together(np.maximum(X, 0.0))))
        t = float(np.median(X[~np.eye(n, dtype=bool)])) if n > 1 else 0.0
        return min(best, math.sqrt(most_of(np.abs(X - t), min(2 * k, n))))

    def _together(self, sizes: Any) -> float:
        """The bound on sums over the classes of cells, from a number for every two cells."""
        n = len(sizes)
        if self.sizes:
            year = self.classes
            members = [np.flatnonzero(year == y) for y in np.unique(year)]
            sizes = np.array([[sizes[np.ix_(a, b)].max() for b in members] for a in members])
        return most_of(sizes, self.count(n))

    def product_distance(self, factors: Sequence[Any]) -> float:
        """The l2 distance of a product that is not materialized; add-remove."""
        sizes = [R.shape[1] for R in factors]
        k = self.count(math.prod(sizes))
        grams = [np.abs(R.T @ R) for R in factors]
        single = math.prod(float(X.diagonal().max()) for X in grams)
        best = k * math.sqrt(single)
        if self.kind == "any" or k == 1:
            return best
        if not self.sizes:
            row = np.ones(1)
            for X in grams:
                longest = np.sort(X, axis=1)[:, ::-1][:, :k].max(axis=0)
                row = -np.sort(-np.outer(row, longest).ravel())[:k]
            return min(best, math.sqrt(k * math.fsum(row)))
        tells = None if self.missing else telling_factors(sizes, self.sizes)
        if tells is None:
            return best
        years, others = np.ones((1, 1)), 1.0
        for X, told in zip(grams, tells, strict=True):
            years = np.kron(years, X) if told else years
            others *= 1.0 if told else float(X.diagonal().max())
        return min(best, math.sqrt(others * most_of(years, k)))


def telling_factors(sizes: Sequence[int], wanted: Sequence[int]) -> list[bool] | None:
    """Whether each factor is within a second one of the wanted sizes; None if one is not."""
    ends = [math.prod(wanted[: i + 1]) for i in range(len(wanted))]
    tells, before = [], 1
    for size in sizes:
        group = next((i for i, end in enumerate(ends) if before < end), len(ends) - 1)
        before *= size
        if before > ends[group]:
            return None
        tells.append(group % 2 == 1)
    return tells


def most_of(sizes: Any, count: int) -> float:
    """At least the sum of the numbers between any `count` classes."""
    own = sizes.diagonal()
    others = -np.sort(-(sizes - np.diag(own)), axis=1)[:, : count - 1]
    return math.fsum(-np.sort(-(own + others.sum(axis=1)))[:count])


def one_row(R: Any, norm: str, *, replaced: bool, groups: Any = None) -> float:
    """The largest norm of a column, or distance of two, of cells of one group."""
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    if not replaced:
        return float(np.linalg.norm(R, ord=order, axis=0).max())
    groups = np.zeros(R.shape[1]) if groups is None else groups
    return max(
        float(np.linalg.norm(R[:, groups == groups[j]] - R[:, [j]], ord=order, axis=0).max())
        for j in range(R.shape[1])
    )


def agreeing(arrays: Arrays) -> Any:
    """The group of each cell, within which a row is replaced; None without invariants."""
    if "counted" not in arrays:
        return arrays.get("groups")
    sizes, counted = arrays["sizes"], np.atleast_2d(arrays["counted"])
    told = counted[0] > 0 if len(counted) == 1 and "strategy" not in arrays else 0 * sizes > 0
    values = np.indices(sizes).reshape(sizes.size, -1)[told]
    return np.unique(values, axis=1, return_inverse=True)[1].ravel()


def for_one_row(form: Form, claims: Claims) -> Claims:
    """The claims that a file makes for the rows of a person, as those for a single one."""
    persons = Persons.of(claims.header.get("participation"))
    if persons is None:
        return claims
    header: dict[str, Any] = {**claims.header}
    k = persons.count(claims.cells)
    parts: list[tuple[str, tuple[str, ...]]] = [("l2", ("upper",))]
    if "own_grid" in header:  # errors are not proportional to the scale
        parts.append(("l1", ("scale", "sensitivity")))
        header["own_grid"] = _ratio(form, claims, persons, "l1") * (1 - AGREEMENT)
    else:
        parts.append((NORMS[header.get("noise", "gaussian")], OF_NOISE))
    for norm, names in parts:
        ratio = _ratio(form, claims, persons, norm) * (1 - AGREEMENT)
        for name in names:
            if isinstance(header.get(name), int | float):
                header[name] /= ratio
    if "lower" in header and persons.kind == "any":
        header["lower"] /= k
    del header["participation"]
    return claims._replace(header=header)


def _ratio(form: Form, claims: Claims, persons: Persons, norm: str) -> float:
    """How much farther people are apart than single rows, at most."""
    replaced, k = claims.header["neighbours"] == "replace", persons.count(claims.cells)
    if k == 1 or persons.kind == "any" or norm == "linf":
        return k
    R = form.matrix(claims.arrays)
    if R is not None:
        R = np.asarray(R, dtype=np.float64)
        R = centred(R) if replaced and "strategy" not in claims.arrays else R
        groups = agreeing(claims.arrays)
        single = one_row(R, norm, replaced=replaced, groups=groups)
        return persons.distance(R, norm, replaced=replaced, groups=groups) / single
    factors = [claims.arrays[name] for name in claims.arrays if name.startswith("factor_")]
    if not factors or "weights" in claims.arrays or replaced or norm == "l1":
        return k
    single = math.prod(one_row(R, "l2", replaced=False) for R in factors)
    return persons.product_distance(factors) / single


def without_sentence(header: Header) -> tuple[str, bool]:
    """The words of a guarantee about a record, and whether the rest is about these persons."""
    persons = Persons.of(header.get("participation"))
    words = header["guarantee"]
    if persons is None:
        return words, True
    return words.removesuffix(persons.sentence), words.endswith(persons.sentence)
