"""Queries by names of attributes: "sex*age + region", "age:prefix", "sex*age:all-range".

    queries = product { "+" product }
    product = [ weight "*" ] factor { "*" factor }
    factor  = attribute [ ":" kind ] | attribute "&" attribute ":" ( "at-most" | "within" )
                                               kind: histogram (the default), prefix, all-range,
                                               window,W, total, and others (`factors`)

A product asks for every combination; attributes that it does not name are summed over, and `total`
alone is the number of records. It becomes a product of workloads over all attributes, in the order
of the schema. `marginals:2,prefix5,4,ways=2` may be written too, with these attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, partial

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.releases.people.attribute import Attribute
from pmldesign.releases.people.factors import (
    Factor,
    factor_of,
    meant,
    of_two,
    queries_on,
    total_factor,
    weight_of,
)
from pmldesign.releases.people.numbers import Number
from pmldesign.releases.people.regions import RegionQueries, parse_regions
from pmldesign.releases.people.schema import Schema
from pmldesign.workloads import DenseWorkload, KroneckerWorkload, Workload, parse_workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.display import count_text
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS, union_of
from pmldesign.workloads.terms.constructors import over_attributes
from pmldesign.workloads.terms.over import as_terms
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign.workloads.weighting import weighted_parts
from pmldesign_solvers.operators.operator import Indices

UNLIKE = 100
"""Queries with entries this many times larger than others leave the others very little budget."""


@dataclass(frozen=True)
class NamedQueries:
    """Queries on the cells of a schema.

    Attributes:
        text: as the user wrote it.
        schema: its attributes.
        parts: for each product its factor for each attribute.
        weights: of the products; () if all are 1.
    """

    text: str
    schema: Schema
    parts: tuple[tuple[Factor, ...], ...]
    weights: tuple[float, ...] = ()

    @cached_property
    def workload(self) -> Workload:
        """A, called as the user wrote it."""
        if not self.weights:
            return self._plain()
        products = (weight_of(part, self.schema.names)[1].strip() for part in self.text.split("+"))
        plain = replace(self, text=" + ".join(products), weights=()).workload
        workload = weighted_parts(plain, self.weights)
        workload.name = self.text
        return workload

    def _plain(self) -> Workload:
        """A without weights, on the cells that can be."""
        possible = self.schema.possible
        return self._on_all() if possible is None else on_cells(self._on_all(), possible)

    def _on_all(self) -> Workload:
        """The same on all cells."""
        made = {factor.text: factor.build for part in self.parts for factor in part if factor.text}
        factors = {text: build() for text, build in made.items()}  # solved once
        products = [[factors[factor.text] for factor in part if factor.text] for part in self.parts]
        listed = [_product_of(part) for part in products]
        texts = self.text.split("+")
        if len(texts) == len(listed):
            listed = [_called(text.strip(), one) for text, one in zip(texts, listed, strict=True)]
        if self.schema.cells <= MAX_PRODUCT_CELLS:
            return _called(self.text, union_of(listed, self.text))
        tables = over_attributes(listed, self.schema.sizes, self.text)
        assert tables is not None
        if tables.crossed and tables.repeats:
            raise InvalidInputError(
                f"the schema has {count_text(self.schema.cells)} cells, for which a table may"
                f" be asked for once; {self.text[:60]!r} has one twice"
            )
        return tables

    def unlike(self) -> tuple[str, str, float, float] | None:
        """The products with the largest and the least entries if these are far apart.

        Returns:
            Both texts, the ratio of the entries, and the weight of the first that makes it 1.
        """
        texts = [weight_of(text, self.schema.names)[1].strip() for text in self.text.split("+")]
        weights = self.weights or [1.0] * len(self.parts)
        sizes = [
            weight * math.prod(map(_largest, part, self.schema.attributes))
            for part, weight in zip(self.parts, weights, strict=True)
        ]
        large, small = int(np.argmax(sizes)), int(np.argmin(sizes))
        ratio = sizes[large] / sizes[small]
        far = len(texts) == len(sizes) and ratio > UNLIKE
        return (texts[large], texts[small], ratio, weights[large] / ratio) if far else None

    def at(self, number: int, place: int) -> Workload:
        """A product with T at one of its t instead of the queries of ratios or quantiles."""
        part = self.parts[number]
        factors = [replace(f, build=partial(f.root.at, place)) if f.root else f for f in part]
        return product_of(factors, self.schema)

    def tables(self) -> list[tuple[str, int]]:
        """What each product is called, and how many rows of the table it has."""
        found = []
        for part in self.parts:
            pairs = zip(self.schema.names, part, strict=True)
            asked = [factor.asked or name for name, factor in pairs if not factor.is_total]
            rows = math.prod(len(factor.names()) for factor in part)
            found.append(("*".join(asked) or "total", rows))
        return found

    def labels(self) -> dict[str, list[str]]:
        """For each attribute the label of every query, "*" if it is summed over."""
        columns: dict[str, list[str]] = {name: [] for name in self.schema.names}
        for part in self.parts:
            labels_of_factors = [factor.names() for factor in part]
            rows = [len(labels) for labels in labels_of_factors]
            for i, name in enumerate(self.schema.names):
                inner = math.prod(rows[i + 1 :])
                once = np.repeat(np.array(labels_of_factors[i], dtype=object), inner)
                columns[name] += np.tile(once, math.prod(rows[:i])).tolist()
        return columns


def _largest(factor: Factor, attribute: Attribute) -> float:
    """The largest entry of queries on numbers; others count."""
    numbers = isinstance(attribute, Number) and not factor.is_total
    return float(np.abs(factor.build().to_dense()).max()) or 1.0 if numbers else 1.0


def _product_of(factors: Sequence[Workload]) -> Workload:
    return KroneckerWorkload(factors) if len(factors) > 1 else factors[0]


def _called(name: str, workload: Workload) -> Workload:
    """The workload under another name."""
    called = copy(workload)
    called.name = name
    return called


def product_of(factors: Sequence[Factor], schema: Schema) -> Workload:
    """The queries that factors, one for each attribute, ask together of cells that can be."""
    product = _product_of([factor.build() for factor in factors if factor.text])
    return product if schema.possible is None else on_cells(product, schema.possible)


def on_cells(workload: Workload, cells: Indices) -> Workload:
    """The queries of a workload on some of its cells, part by part."""
    asked = as_terms(workload)
    parts: list[Workload] = []
    for term, (name, _) in zip(asked.terms, asked.part_rows, strict=True):
        part = TermsWorkload(asked.domain, [term], name=name)
        check_entries(part.name, part.shape)
        matrix = part.to_dense()[:, cells]
        parts.append(DenseWorkload(matrix, name=name, copy=False, label=part.row_label))
    return _called(workload.name, union_of(parts, workload.name))


def parse_queries(text: str, schema: Schema) -> NamedQueries | RegionQueries:
    """The queries that a text with names of attributes means.

    Raises:
        InvalidInputError: an unknown attribute or kind of ranges, or an attribute named twice.
    """
    if schema.places is not None:
        return parse_regions(text, schema)
    if text.startswith("marginals:") and "marginals" not in schema.names:
        return _of_marginals(text, schema)
    weights, products = zip(
        *(weight_of(part, schema.names) for part in text.split("+")), strict=True
    )
    parts = tuple(_product(product, schema) for product in products)
    weighted = any(weight != 1 for weight in weights)
    return NamedQueries(text, schema, parts, weights if weighted else ())


def _of_marginals(text: str, schema: Schema) -> NamedQueries:
    tables = as_terms(parse_workload(text))
    if not tables.crossed or tables.repeats or tables.domain != schema.sizes:
        raise InvalidInputError(
            f"{text[:60]!r} is not about attributes with {','.join(map(str, schema.sizes))} "
            "values, which the schema has; write names of attributes"
        )
    totals = dict(enumerate(map(total_factor, schema.attributes)))
    made: dict[tuple[int, str], Factor] = {}
    parts = []
    for term in tables.terms:
        asked = {}
        for i, queries in term.of_attributes.items():
            if (i, queries.name) not in made:
                made[i, queries.name] = _of_kind(schema.attributes[i], queries.name)
            asked[i] = made[i, queries.name]
        parts.append(tuple((totals | asked).values()))
    return NamedQueries(text, schema, tuple(parts))


def _of_kind(attribute: Attribute, kind: str) -> Factor:
    if not kind.startswith("histogram"):
        attribute.require_order(f"the sums of {kind!r}")
    return queries_on(attribute, kind)


def _product(text: str, schema: Schema) -> tuple[Factor, ...]:
    attributes = dict(zip(schema.names, schema.attributes, strict=True))
    factors: dict[str, Factor] = {}
    for part in (piece.strip() for piece in text.split("*")):
        name = part.partition(":")[0].strip()
        if part == "total" and part not in attributes:
            continue
        if "&" in name and name not in attributes:
            two = _neighbours(name, part, schema)
            if factors.keys() & {attribute.name for attribute in two}:
                raise _twice(name, text)
            pairs = zip(two, of_two(two, part), strict=True)
            factors |= {attribute.name: factor for attribute, factor in pairs}
            continue
        if name not in attributes:
            hint, known = _hint(name, attributes), ", ".join(attributes)
            problem = f"the schema has no attribute {name[:60]!r}; {hint}it has {known}"
            raise InvalidInputError(problem[:300])
        if name in factors:
            raise _twice(name, text)
        factors[name] = factor_of(attributes[name], part)
    if sum(factor.root is not None for factor in factors.values()) > 1:
        raise InvalidInputError(
            f"{text.strip()[:60]!r} asks for two ratios or quantiles at once; a product has one"
            " mean, share or quantile"
        )
    return tuple(factors.get(name) or total_factor(a) for name, a in attributes.items())


def _twice(name: str, text: str) -> InvalidInputError:
    return InvalidInputError(f"attribute {name!r} is named twice in {text.strip()[:60]!r}")


def _neighbours(name: str, part: str, schema: Schema) -> Sequence[Attribute]:
    """The two attributes of "age&income", which stand together in the schema."""
    wanted = [piece.strip() for piece in name.split("&")]
    places = [schema.names.index(piece) for piece in wanted if piece in schema.names]
    if len(wanted) != 2 or len(places) != 2 or places[1] != places[0] + 1:
        raise InvalidInputError(
            f"{part[:60]!r} joins two attributes that follow each other in the schema, which has"
            f" {', '.join(schema.names)}"
        )
    return schema.attributes[places[0] : places[1] + 1]


def _hint(name: str, attributes: Mapping[str, Attribute]) -> str:
    """Likely meanings of a name that no attribute has."""
    if "," in name:
        listed = [piece.strip() for piece in name.split(",")]
        return f"write {'*'.join(listed)} for combinations, {' + '.join(listed)} for each alone; "
    function, bracket, inner = name.removesuffix(")").partition("(")
    asked = attributes.get(inner.strip()) if bracket else None
    if asked is not None:
        counts = f"write {asked.name} for the counts of its values"
        return f"{meant(asked, function.strip()) or counts}; "
    if not name:
        return "write names on both sides of * and +; "
    known = {each.casefold(): each for each in attributes}
    close = get_close_matches(name.casefold(), known, n=1)
    return f"did you mean {known[close[0]]!r}? " if close else ""


Named = NamedQueries | RegionQueries
"""Queries by names of attributes."""


def labels_of(queries: Workload, named: Named | None) -> dict[str, list[str]]:
    """Labels of the attributes, or the numbers of the queries without names."""
    if named is not None:
        return named.labels()
    return {"query": [str(number) for number in range(queries.shape[0])]}


def named_queries(queries: Workload, schema: Schema | None) -> Named | None:
    """The queries by names of attributes, as which a workload was written; None if it was not."""
    if schema is not None:
        with suppress(InvalidInputError):
            named = parse_queries(queries.name, schema)
            if same_queries(named.workload, queries):
                return named
    return None


def roots_asked(named: Named | None) -> NamedQueries | None:
    """The queries if some of them are ratios or quantiles."""
    if not isinstance(named, NamedQueries):
        return None
    return named if any(factor.root for part in named.parts for factor in part) else None


def same_queries(first: Workload, second: Workload) -> bool:
    """Whether two workloads ask the same: the same tables, or the same of three histograms."""
    one, other = as_terms(first), as_terms(second)
    if len(one.domain) > 1 and (one.domain, one.kinds) == (other.domain, other.kinds):
        pairs = [(one.ways[group], other.ways[group]) for group in one.ways]
        equal = all(all(map(same_queries, *pair)) for pair in pairs)
        return equal and np.array_equal(one.weights, other.weights)
    if first.shape != second.shape or first.shape[1] > MAX_PRODUCT_CELLS:
        return False
    for seed in range(3):
        x = np.random.default_rng(seed).integers(0, 2**10, first.shape[1]).astype(np.float64)
        if not np.allclose(first.matvec(x), second.matvec(x), rtol=1e-9, atol=0):
            return False
    return True
