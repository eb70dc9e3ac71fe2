"""Queries on a geographic hierarchy (`attribute`), by the names of their levels.

    product = [ weight "*" ] factor { "*" factor }
    factor  = level | place | attribute [ ":" ranges ] | "total"

A product asks about the places of one level, `place` about all of the lowest ones, and a product
without either about everyone. "place:levels" stands for a product for each level. Other attributes
are asked for their counts or ranges of their values, all products that name one in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.releases.people.attribute import Attribute
from pmldesign.releases.people.factors import Factor, factor_of, total_factor, weight_of
from pmldesign.workloads import Workload
from pmldesign.workloads.display import count_text
from pmldesign.workloads.nested.places import Places
from pmldesign.workloads.nested.tables import RegionTable, RegionTablesWorkload
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.weighting import weighted_parts
from pmldesign_solvers.operators.operator import Indices

if TYPE_CHECKING:
    from pmldesign.releases.people.schema import Schema

EVERY_LEVEL = "levels"
"""After the name of the attribute: a table for each level."""


@dataclass(frozen=True)
class Product:
    """One table at the places of one level.

    Attributes:
        text: as the user wrote it, without its weight.
        weight: of its answers.
        level: its number; None for all places of the lowest level.
        asked: the attributes by their numbers, except the one with levels, in increasing order, and
            the queries on each.
    """

    text: str
    weight: float
    level: int | None
    asked: Mapping[int, Factor]

    @property
    def table(self) -> tuple[int, ...]:
        """The numbers of the attributes."""
        return tuple(self.asked)


@dataclass(frozen=True)
class RegionQueries:
    """Queries on the cells of a schema with levels.

    Attributes:
        text: as the user wrote it.
        schema: its attributes.
        products: the requested products, in this order.
    """

    text: str
    schema: Schema
    products: tuple[Product, ...]

    @cached_property
    def workload(self) -> Workload:
        """A, called as the user wrote it."""
        cells = self.schema.cells
        if cells > MAX_PRODUCT_CELLS:
            raise InvalidInputError(
                f"the schema has {count_text(cells)} cells, with levels it may have up to"
                f" {MAX_PRODUCT_CELLS}; leave attributes out of the schema"
            )
        parts = [
            RegionTable(product.text, product.table, nodes, np.ones(len(nodes)))
            for product, nodes in self._asked()
        ]
        plain = RegionTablesWorkload(
            " + ".join(product.text for product in self.products),
            self._places.tree,
            self.schema.sizes[1:],
            parts,
            {i: factor.build() for i, factor in self._asked_of_ordered().items()},
        )
        weights = [product.weight for product in self.products]
        if all(weight == 1 for weight in weights):
            plain.name = self.text
            return plain
        workload = weighted_parts(plain, weights)
        workload.name = self.text
        return workload

    def tables(self) -> list[tuple[str, int]]:
        """What each product is called, and how many rows of the table it has."""
        found = []
        for product, nodes in self._asked():
            each = (len(factor.names()) for factor in product.asked.values())
            found.append((product.text, len(nodes) * math.prod(each)))
        return found

    def labels(self) -> dict[str, list[str]]:
        """For each level and attribute the label of every query, "*" if it is summed over."""
        names = self._places.named
        keys = np.array([self._keys(node) for node in range(self._places.tree.nodes)], dtype=object)
        columns: dict[str, list[str]] = {name: [] for name in (*names, *self.schema.names[1:])}
        for product, nodes in self._asked():
            labels = [
                (product.asked.get(i) or total_factor(attribute)).names()
                for i, attribute in enumerate(self.schema.attributes[1:])
            ]
            sizes = [len(of_queries) for of_queries in labels]
            for name, of_nodes in zip(names, keys[nodes].T, strict=True):
                columns[name] += np.repeat(of_nodes, math.prod(sizes)).tolist()
            for i, (name, of_queries) in enumerate(zip(self.schema.names[1:], labels, strict=True)):
                once = np.repeat(np.array(of_queries, dtype=object), math.prod(sizes[i + 1 :]))
                columns[name] += np.tile(once, math.prod(sizes[:i]) * len(nodes)).tolist()
        return columns

    def _asked_of_ordered(self) -> dict[int, Factor]:
        """The queries on each attribute that is asked for more than counts.

        Raises:
            InvalidInputError: one is asked for in two ways.
        """
        asked: dict[int, Factor] = {}
        for product in self.products:
            for i, factor in product.asked.items():
                if asked.setdefault(i, factor).text != factor.text:
                    name = self.schema.names[1 + i]
                    raise InvalidInputError(
                        f"beside levels an attribute is asked for in one way, and {name!r} is for"
                        f" {asked[i].text} and {factor.text}; write the same everywhere, such as"
                        f" {name}:prefix, whose differences are counts and ranges"
                    )
        sizes = self.schema.sizes[1:]
        ranges = {i for i, f in asked.items() if not f.text.startswith("histogram")}
        return {i: asked[i] for i in ranges if sizes[i] > 1}

    @property
    def _places(self) -> Places:
        assert self.schema.places is not None
        return self.schema.places

    def _asked(self) -> Iterator[tuple[Product, Indices]]:
        """Each product, and the nodes that it asks about."""
        places = self._places
        for product in self.products:
            nodes = places.tree.leaves
            if product.level is not None:
                nodes = np.flatnonzero(places.level == product.level)
            yield product, nodes

    def _keys(self, node: int) -> list[str]:
        """The keys of a place down to its level, and "*" below."""
        places = self._places
        path, added = places.paths[node], len(places.levels) - len(places.named)
        known = int(places.level[node]) + 1 - added
        return [*path[:known], *["*"] * (len(path) - known)]


def parse_regions(text: str, schema: Schema) -> RegionQueries:
    """The queries that a text with names of levels and attributes means.

    Raises:
        InvalidInputError: an unknown name or kind of ranges, two levels, or an attribute named
            twice.
    """
    products = [product for part in text.split("+") for product in _products(part, schema)]
    return RegionQueries(text, schema, tuple(products))


def _products(part: str, schema: Schema) -> Iterator[Product]:
    """The products that a text stands for: one for each level if it contains ":levels"."""
    places, place = schema.places, schema.names[0]
    assert places is not None
    weight, rest = weight_of(part, [*schema.names, *places.named])
    numbers = {name: i for i, name in enumerate(schema.names[1:])}
    levels: list[str] = []
    asked_of: dict[int, Factor] = {}
    of_attribute: dict[int, str] = {}
    factors = [piece.strip() for piece in rest.split("*")]
    for factor in factors:
        name, colon, kind = (piece.strip() for piece in factor.partition(":"))
        if name in numbers:
            number = numbers[name]
            if number in asked_of:
                raise InvalidInputError(
                    f"attribute {name!r} is named twice in {part.strip()[:60]!r}"
                )
            asked_of[number] = _ranges_of(schema.attributes[1 + number], factor)
            of_attribute[number] = factor
        elif name in (place, *places.named) and (not colon or (name, kind) == (place, EVERY_LEVEL)):
            levels.append(factor.replace(" ", "") if colon else name)
        elif factor != "total":
            raise _unknown(factor, name, schema)
    if len(levels) > 1:
        raise InvalidInputError(
            f"{part.strip()[:60]!r} names {levels[0]!r} and {levels[1]!r}; a product asks about one"
            " level, the lower of which has the keys of those above it beside it"
        )
    chosen = {i: q for i, q in sorted(asked_of.items()) if not q.is_total}
    if levels and ":" in levels[0]:
        named = [of_attribute[i] for i in chosen]
        for number, level in enumerate(places.levels):
            yield Product("*".join([level, *named]), weight, number, chosen)
        return
    lowest = levels == [place]
    asked = None if lowest else places.levels.index(levels[0]) if levels else 0
    yield Product(rest.strip(), weight, asked, chosen)


def _ranges_of(attribute: Attribute, asked: str) -> Factor:
    """The counts or ranges that "age:prefix" asks for; other queries are refused."""
    factor = factor_of(attribute, asked)
    if factor.root is not None:
        raise InvalidInputError(
            f"{asked[:60]!r}: beside levels attributes are asked for counts or ranges; write "
            f"{attribute.name}, or leave the attribute with levels out of the schema"
        )
    return factor


def _unknown(factor: str, name: str, schema: Schema) -> InvalidInputError:
    """Why a factor is invalid."""
    places = schema.places
    assert places is not None
    if name in (schema.names[0], *places.named):
        return InvalidInputError(
            f"{factor[:60]!r}: write the name of a level ({', '.join(places.named)}), or"
            f" {schema.names[0]}:{EVERY_LEVEL} for all of them"
        )
    known = [*places.named, *schema.names]
    return InvalidInputError(
        f"the schema has no attribute or level {name[:60]!r}; it has {', '.join(known)}"[:300]
    )
