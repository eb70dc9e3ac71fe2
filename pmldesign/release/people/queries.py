"""Queries by names of attributes: "sex*age + region", "age:prefix", "sex*age:all-range".

    queries = product { "+" product }
    product = [ weight "*" ] factor { "*" factor }
    factor  = attribute [ ":" ranges ]         ranges: histogram (the default), prefix, all-range,
                                               window,W, total

A product asks for every combination; attributes that it does not name are summed over, and `total`
alone is the number of records. The text becomes one of `workloads.parsing` over all attributes, in
the order of the schema. `marginals:2,prefix5,4,ways=2` may be written too, with these attributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.release.people.regions import RegionQueries, parse_regions, weight_of
from pmldesign.release.people.schema import Schema
from pmldesign.workloads import (
    MarginalsWorkload,
    TablesWorkload,
    Workload,
    parse_workload,
)
from pmldesign.workloads.base import count_text
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.union import stacked
from pmldesign.workloads.weighting.weigh import weighted_parts

RANGES = ("histogram", "total", "prefix", "all-range", "window")


@dataclass(frozen=True)
class NamedQueries:
    """Queries on the cells of a schema.

    Attributes:
        text: as the user wrote it.
        schema: its attributes.
        parts: for each product the text of its factor for each attribute.
        weights: of the products; () where all are 1.
    """

    text: str
    schema: Schema
    parts: tuple[tuple[str, ...], ...]
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
        """A without weights."""
        if self.schema.cells > MAX_PRODUCT_CELLS:
            return self._tables()
        parsed = parse_workload("+".join("*".join(part) for part in self.parts))
        parsed.name = self.text
        texts = self.text.split("+")
        parts = stacked(parsed)
        if 1 < len(parts) == len(texts):
            for part, text in zip(parts, texts, strict=True):
                part.name = text.strip()
        return parsed

    def _tables(self) -> MarginalsWorkload | TablesWorkload:
        """A, where the domain is too large for other queries than tables.

        Raises:
            InvalidInputError: an attribute is asked for in two ways.
        """
        asked: dict[int, str] = {}
        for part in self.parts:
            for i, factor in enumerate(part):
                first = asked.setdefault(i, factor) if not _is_total(factor) else factor
                if first != factor:
                    raise InvalidInputError(
                        f"the schema has {count_text(self.schema.cells)} cells, for which "
                        f"attribute {self.schema.names[i]!r} may be asked for in one way, got "
                        f"{first} and {factor}; leave attributes out of the schema"
                    )
        subsets = [
            [i for i, factor in enumerate(part) if not _is_total(factor)] for part in self.parts
        ]
        ranges = {i: f for i, f in asked.items() if not f.startswith("histogram")}
        if not ranges:
            return MarginalsWorkload(self.schema.sizes, subsets, name=self.text)
        attributes = [
            parse_workload(ranges[i]) if i in ranges else size
            for i, size in enumerate(self.schema.sizes)
        ]
        return TablesWorkload(attributes, subsets, name=self.text)

    def labels(self) -> dict[str, list[str]]:
        """For each attribute the label of every query, "*" where it is summed over."""
        columns: dict[str, list[str]] = {name: [] for name in self.schema.names}
        for part in self.parts:
            labels_of_factors = [self._factor_labels(i, factor) for i, factor in enumerate(part)]
            rows = [len(labels) for labels in labels_of_factors]
            for i, name in enumerate(self.schema.names):
                inner = math.prod(rows[i + 1 :])
                once = np.repeat(np.array(labels_of_factors[i], dtype=object), inner)
                columns[name] += np.tile(once, math.prod(rows[:i])).tolist()
        return columns

    def _factor_labels(self, index: int, factor: str) -> list[str]:
        attribute, ranges = self.schema.attributes[index], parse_workload(factor)
        if factor.startswith("total"):
            return ["*"]
        assert ranges.ends is not None
        pairs = zip(*(ends.tolist() for ends in ranges.ends), strict=True)
        return [attribute.range_label(start, stop) for start, stop in pairs]


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
    tables = parse_workload(text).as_tables()
    if tables is None or tables.sizes != schema.sizes:
        raise InvalidInputError(
            f"{text[:60]!r} is not about attributes with {','.join(map(str, schema.sizes))} "
            "values, which the schema has; write names of attributes"
        )
    kinds = [f"histogram:{size}" for size in schema.sizes]
    if tables.attributes:
        kinds = [queries.name for queries in tables.attributes]
        for kind, attribute in zip(kinds, schema.attributes, strict=True):
            if not kind.startswith("histogram"):
                attribute.require_order(f"the sums of {kind!r}")
    parts = [
        tuple(
            kind if i in subset else f"total:{size}"
            for i, (kind, size) in enumerate(zip(kinds, schema.sizes, strict=True))
        )
        for subset in tables.subsets
    ]
    return NamedQueries(text, schema, tuple(parts))


def _is_total(factor: str) -> bool:
    return factor.startswith("total")


def _product(text: str, schema: Schema) -> tuple[str, ...]:
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    factors: dict[str, str] = {}
    for part in (piece.strip() for piece in text.split("*")):
        name, colon, ranges = (piece.strip() for piece in part.partition(":"))
        if part == "total" and part not in sizes:
            continue
        if name not in sizes:
            hint = _hint(name, [*sizes])
            raise InvalidInputError(
                f"the schema has no attribute {name[:60]!r}; {hint}it has {', '.join(sizes)}"[:300]
            )
        if name in factors:
            raise InvalidInputError(f"attribute {name!r} is named twice in {text.strip()[:60]!r}")
        kind, *arguments = (
            [piece.strip() for piece in ranges.split(",")] if colon else ["histogram"]
        )
        if kind not in RANGES:
            raise InvalidInputError(
                f"{part[:60]!r}: {kind!r} is none of {', '.join(RANGES)}; write for example "
                f"{name}:prefix"
            )
        if kind not in ("histogram", "total"):
            schema.attributes[schema.names.index(name)].require_order(f"the sums of {part!r}")
        factors[name] = ",".join([f"{kind}:{sizes[name]}", *arguments])
    return tuple(factors.get(name, f"total:{size}") for name, size in sizes.items())


def _hint(name: str, names: list[str]) -> str:
    """What somebody may have meant by a name that no attribute has."""
    if "," in name:
        listed = [piece.strip() for piece in name.split(",")]
        return f"write {'*'.join(listed)} for combinations, {' + '.join(listed)} for each alone; "
    function, bracket, inner = name.removesuffix(")").partition("(")
    if bracket and inner.strip() in names:
        return (
            f"queries are counts, and {function} is none; write {inner} for those of its values; "
        )
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}? " if close else ""
