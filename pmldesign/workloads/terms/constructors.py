"""Workloads over attributes from their parts: products, unions, marginals and tables."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.display import count_text
from pmldesign.workloads.ranges import CountsWorkload, RangeWorkload
from pmldesign.workloads.terms.attributes import (
    attribute_set,
    attribute_sizes,
    positive_weights,
    require_different,
)
from pmldesign.workloads.terms.over import as_terms, terms_over
from pmldesign.workloads.terms.term import Group, Term
from pmldesign.workloads.terms.workload import TermsWorkload

Table = Mapping[int, Workload] | Mapping[Group, Workload]
"""From attributes, or sets of them, to the queries on their cells."""
MAX_JOINED = 2048
"""Cells of attributes that are asked about together: every step decomposes a matrix of them."""


def KroneckerWorkload(factors: Sequence[Workload], *, name: str | None = None) -> TermsWorkload:
    """Every combination of the queries of several workloads, one for each attribute.

    Args:
        factors: at least two workloads, the first one slowest; products among them are flattened.
        name: its name in messages and tables; by default the factors' names joined by "*".

    Raises:
        InvalidInputError: fewer than two factors.
    """
    count = sum(len(factor.factors) for factor in factors)
    if count < 2:
        raise InvalidInputError(f"a product needs at least two workloads, got {count}")
    weight, domain, queries = 1.0, list[int](), dict[Group, Workload]()
    for factor in map(as_terms, factors):
        first, (term, *others) = len(domain), factor.terms
        domain += factor.domain
        if others:
            queries[tuple(range(first, len(domain)))] = factor
        else:
            weight *= term.weight
            queries |= {tuple(first + i for i in g): q for g, q in term.queries.items()}
    name = "*".join(factor.name for factor in factors) if name is None else name
    return TermsWorkload(domain, [Term(weight, queries, name)], name=name)


def UnionWorkload(parts: Sequence[Workload], *, name: str | None = None) -> TermsWorkload:
    """The queries of several workloads, one below the other.

    Parts over the same attributes stay queries over these; others are queries on all cells.

    Args:
        parts: at least two workloads on the same number of cells, in the order of the rows.
        name: its name in messages and tables; by default the parts' names joined by "+".

    Raises:
        InvalidInputError: fewer than two parts, or different numbers of cells.
    """
    if len(parts) < 2:
        raise InvalidInputError(f"a union needs at least two workloads, got {len(parts)}")
    cells = parts[0].shape[1]
    for part in parts[1:]:
        if part.shape[1] != cells:
            raise InvalidInputError(
                f"the parts of a union ask about the same cells; {parts[0].name!r} has "
                f"{count_text(cells)} cells, {part.name!r} has {count_text(part.shape[1])}"
            )
    name = "+".join(part.name for part in parts) if name is None else name
    listed = [as_terms(part) for part in parts]
    domains = {part.domain for part in listed}
    domain = domains.pop() if len(domains) == 1 else (cells,)
    union = over_attributes(listed, domain, name)
    assert union is not None
    return union


def on_common_attributes(parts: Sequence[Workload]) -> TermsWorkload | None:
    """The union of workloads whose attributes divide the same cells in different ways.

    Neighbouring attributes that some part asks about together are one, if all parts then ask about
    single attributes; else groups join the finest attributes that there are.

    Returns:
        None for parts on different cells, or that ask about no such attributes.
    """
    name = "+".join(part.name for part in parts)
    listed = [as_terms(part) for part in parts]
    domains = [part.domain for part in listed]
    sizes = common_sizes(domains)
    crossed = all(part.crossed for part in listed) and sizes is not None
    return over_attributes(listed, sizes if crossed and sizes else finest_sizes(domains), name)


def over_attributes(
    parts: Sequence[Workload], domain: tuple[int, ...], name: str
) -> TermsWorkload | None:
    """The terms of all parts over attributes of these sizes."""
    terms: list[Term] = []
    for part in parts:
        over = terms_over(part, domain)
        if over is None:
            return None
        alone = len(over) == 1
        terms += [Term(t.weight, t.queries, part.name if alone else t.name) for t in over]
    return TermsWorkload(domain, terms, name=name)


def common_sizes(domains: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The attributes that all parts share once neighbouring ones are joined, as fine as possible.

    Cells are in the order of np.kron, so that neighbouring attributes of a and b values are one of
    a b values, and the product of all sizes before an attribute determines its position.

    Returns:
        Their sizes; None for parts on different cells, with no boundary in common, or that join
        attributes of more than MAX_JOINED cells.
    """
    if len(set(domains)) == 1:
        return domains[0]
    ends = [set(accumulate(sizes, operator.mul)) for sizes in domains]
    shared = sorted({1, *set.intersection(*ends)})
    inner = set.union(*ends).difference(shared)
    pairs = [*pairwise(shared)]
    joined = [end // start for start, end in pairs if any(start < cut < end for cut in inner)]
    if len({math.prod(sizes) for sizes in domains}) > 1 or len(pairs) < 2:
        return None
    return (
        None if max(joined, default=1) > MAX_JOINED else tuple(end // start for start, end in pairs)
    )


def finest_sizes(domains: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The sizes of the coarsest attributes that compose the attributes of every domain."""
    if len(set(domains)) == 1:
        return domains[0]
    cuts = sorted({1}.union(*(accumulate(domain, operator.mul) for domain in domains)))
    return tuple(end // start for start, end in pairwise(cuts))


def TablesWorkload(
    attributes: Sequence[Workload | int],
    tables: Iterable[Iterable[int] | Table],
    weights: ArrayLike | None = None,
    *,
    name: str = "tables",
) -> TermsWorkload:
    """The tables over some sets of attributes: marginals, or each attribute with its own queries.

    Args:
        attributes: A_i for each attribute: a workload on its values, or their number for counts,
            from 1 to MAX_SIZE.
        tables: for each its attributes (from 0), in any order, () is the total; or a mapping from
            attributes, or sets of them in increasing order, to the queries on their cells.
        weights: c_T > 0 for each table; None for 1.
        name: its name in messages.

    Raises:
        InvalidInputError: no attribute or no table, over MAX_SETS of them, a size or an attribute
            out of its range, a repeated one, queries that are zero or on other cells, or weights
            that are not positive and finite.
    """
    entries = [(a.shape[1], a) if isinstance(a, Workload) else (a, None) for a in attributes]
    domain = attribute_sizes([size for size, _ in entries])
    own = [queries or CountsWorkload(n) for n, (_, queries) in zip(domain, entries, strict=True)]
    for i, queries in enumerate(own):
        _require_queries(f"attribute {i}", queries)
    asked = [_table(number, table, own) for number, table in enumerate(tables)]
    sets = [tuple(i for group in table for i in group) for table in asked]
    keys = [tuple((group, id(queries)) for group, queries in table.items()) for table in asked]
    require_different("table", sets, keys)
    given = np.ones(len(asked)) if weights is None else weights
    scales = positive_weights("table", given, len(asked)).tolist()
    terms = [Term(scale, table) for table, scale in zip(asked, scales, strict=True)]
    return TermsWorkload(domain, terms, name=name)


def _table(
    number: int,
    table: Iterable[int] | Table,
    own: Sequence[Workload],
) -> dict[Group, Workload]:
    """The queries of a table, by groups of attributes.

    Raises:
        InvalidInputError: attributes that there are not, or twice, or queries that are zero.
    """
    if not isinstance(table, Mapping):
        return {(i,): own[i] for i in attribute_set("table", number, table, len(own))}
    groups = {group if isinstance(group, tuple) else (group,): Q for group, Q in table.items()}
    attribute_set("table", number, [i for group in groups for i in group], len(own))
    for group, queries in groups.items():
        if not group:
            raise InvalidInputError(f"table {number} asks about no attribute; () is the total")
        _require_queries(f"table {number} over attributes {group}", queries)
    return dict(sorted(groups.items()))


def _require_queries(of: str, queries: Workload) -> None:
    if not isinstance(queries, RangeWorkload) and queries.longest_column() == 0:
        raise InvalidInputError(f"the queries of {of} are all zero")
